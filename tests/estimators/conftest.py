"""The estimators need scikit-learn, 1.6 or newer."""

import pytest

pytest.importorskip("sklearn", minversion="1.6", reason="needs the extra sklearn")
