"""Arrays of any library, input checks, and matrices given by their two products.

This module is the public face of the package, with the names that all other packages use. A name
that only one package needs is imported from the module that defines it.
"""

from tiebreak.linalg.arrays import SAFE, TINY, Array, Host, Image, mix, rounding_unit, to_numpy
from tiebreak.linalg.elementwise import into, ldexp, masked, moved, negligible, smallest_normal
from tiebreak.linalg.fingerprints import FromData, assign, remember
from tiebreak.linalg.images import DeferredImage, DeferredProduct, PassPlan, settled
from tiebreak.linalg.matrices import DENSE_LIMIT, Dense, Matrix, Operator, RowBlocks, Streamed
from tiebreak.linalg.rank import AS_IT_IS, Rank, decide_rank, null_basis
from tiebreak.linalg.refusals import Refusal, refusal_of
from tiebreak.linalg.registry import in_files
from tiebreak.linalg.spectra import EPS, cleaned, clear_rank, equilibrate
from tiebreak.linalg.tolerances import TOL

__all__ = [
    "AS_IT_IS",
    "DENSE_LIMIT",
    "EPS",
    "SAFE",
    "TINY",
    "TOL",
    "Array",
    "DeferredImage",
    "DeferredProduct",
    "Dense",
    "FromData",
    "Host",
    "Image",
    "Matrix",
    "Operator",
    "PassPlan",
    "Rank",
    "Refusal",
    "RowBlocks",
    "Streamed",
    "assign",
    "cleaned",
    "clear_rank",
    "decide_rank",
    "equilibrate",
    "in_files",
    "into",
    "ldexp",
    "masked",
    "mix",
    "moved",
    "negligible",
    "null_basis",
    "refusal_of",
    "remember",
    "rounding_unit",
    "settled",
    "smallest_normal",
    "to_numpy",
]
