"""Problems and results in files: one .npz file each, written whole or not at all, never unpickled.

The files are those of `linalg.archive`. A result that was forged with care is believed: who can
write your files could change your data as well.
"""

from tiebreak.saving.reading import load
from tiebreak.saving.writing import save_levels, save_levels_result, save_problem, save_result

__all__ = ["load", "save_levels", "save_levels_result", "save_problem", "save_result"]
