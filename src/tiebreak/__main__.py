"""``python -m tiebreak``: the command line."""

import sys

from tiebreak.cli import main

sys.exit(main())
