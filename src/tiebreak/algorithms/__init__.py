"""The algorithms, one file per paper."""

from tiebreak.algorithms.adaptive import AdaptiveAGMBiO
from tiebreak.algorithms.agm_bio import AGMBiO, PAGMBiO
from tiebreak.algorithms.base import (
    DirectState,
    Findings,
    Method,
    Multipliers,
    StateReport,
    StepEvidence,
    no_projection,
)
from tiebreak.algorithms.facts import Rate
from tiebreak.algorithms.levels import FixedLevels, GivenLevels, OnlineLevels
from tiebreak.algorithms.primal_dual import PrimalDual
from tiebreak.algorithms.rivals.a_irg import AIRG
from tiebreak.algorithms.rivals.ada_bim import AdaBiM
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.algorithms.rivals.big_sam import BiGSAM
from tiebreak.algorithms.rivals.bisec_bio import BisecBiO
from tiebreak.algorithms.rivals.cg_bio import CGBiO
from tiebreak.algorithms.rivals.dbgd import DBGD
from tiebreak.algorithms.rivals.diagonal import (
    IREAPG,
    IREPG,
    SEDM,
    BiFISTA,
    BiPG,
    Diagonal,
    FBiPG,
    StaBiM,
)
from tiebreak.algorithms.rivals.fc_bio import FCBiO
from tiebreak.algorithms.rivals.fiba import FIBA
from tiebreak.algorithms.rivals.ir_cg import IRCG
from tiebreak.algorithms.rivals.level_newton import LevelNewton
from tiebreak.algorithms.rivals.mng import MNG
from tiebreak.algorithms.rivals.pb_apg import PBAPG
from tiebreak.algorithms.rivals.r_apm import RAPM
from tiebreak.algorithms.rivals.r_vfista import RVFISTA
from tiebreak.algorithms.rivals.sea import SEA
from tiebreak.algorithms.rivals.stochastic_cg import IRFSCG, IRSCG, SBCGF
from tiebreak.algorithms.rivals.tikhonov import Tikhonov
from tiebreak.algorithms.svrg import BregmanSVRG

__all__ = [
    "AIRG",
    "DBGD",
    "FIBA",
    "IRCG",
    "IREAPG",
    "IREPG",
    "IRFSCG",
    "IRSCG",
    "MNG",
    "PBAPG",
    "RAPM",
    "RVFISTA",
    "SBCGF",
    "SEA",
    "SEDM",
    "AGMBiO",
    "AdaBiM",
    "AdaptiveAGMBiO",
    "BiFISTA",
    "BiGSAM",
    "BiPG",
    "BiSG",
    "BisecBiO",
    "BregmanSVRG",
    "CGBiO",
    "Diagonal",
    "DirectState",
    "FBiPG",
    "FCBiO",
    "Findings",
    "FixedLevels",
    "GivenLevels",
    "LevelNewton",
    "Method",
    "Multipliers",
    "OnlineLevels",
    "PAGMBiO",
    "PrimalDual",
    "Rate",
    "StaBiM",
    "StateReport",
    "StepEvidence",
    "Tikhonov",
    "no_projection",
]
