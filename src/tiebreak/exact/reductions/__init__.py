"""Problems with a shorter way: few rows, many rows, an l1 penalty, an operator, outliers."""
