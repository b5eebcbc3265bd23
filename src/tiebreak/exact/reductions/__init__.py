"""Problems with a faster solution: few rows, many rows, an l1 penalty, an operator, outliers."""
