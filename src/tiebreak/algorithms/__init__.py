"""The algorithms, one file per paper."""

from tiebreak.algorithms.adaptive import AdaptiveAGMBiO
from tiebreak.algorithms.agm_bio import AGMBiO
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
from tiebreak.algorithms.p_agm_bio import PAGMBiO
from tiebreak.algorithms.primal_dual import PrimalDual
from tiebreak.algorithms.rivals.a_irg import AIRG
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.algorithms.rivals.bisec_bio import BisecBiO
from tiebreak.algorithms.rivals.cg_bio import CGBiO
from tiebreak.algorithms.rivals.pb_apg import PBAPG
from tiebreak.algorithms.rivals.r_apm import RAPM
from tiebreak.algorithms.rivals.sea import SEA
from tiebreak.algorithms.svrg import BregmanSVRG

__all__ = [
    "AIRG",
    "PBAPG",
    "RAPM",
    "SEA",
    "AGMBiO",
    "AdaptiveAGMBiO",
    "BiSG",
    "BisecBiO",
    "BregmanSVRG",
    "CGBiO",
    "DirectState",
    "Findings",
    "FixedLevels",
    "GivenLevels",
    "Method",
    "Multipliers",
    "OnlineLevels",
    "PAGMBiO",
    "PrimalDual",
    "Rate",
    "StateReport",
    "StepEvidence",
    "no_projection",
]
