"""Problems and results in files: one .npz file each, written whole or not at all, never unpickled.

A file is an archive of NumPy: the arrays by the names of the arguments that they are (``lower.A``),
and one JSON text, ``tiebreak``, that says what is made from them. An object goes by the name of its
class in KINDS and by the arguments of its constructor, so that reading a file makes nothing but
these, and a constructor checks its arguments as ever.

Accidents are noticed: the archive has check sums, and no array is larger than the file. A result
that was forged with care is believed: who can write your files could change your data as well.
"""

from tiebreak.saving.reading import load
from tiebreak.saving.writing import save_levels, save_levels_result, save_problem, save_result

__all__ = ["load", "save_levels", "save_levels_result", "save_problem", "save_result"]
