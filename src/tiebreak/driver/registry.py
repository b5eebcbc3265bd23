"""The methods, one file per paper."""

from __future__ import annotations

from tiebreak.algorithms.adaptive import AdaptiveAGMBiO
from tiebreak.algorithms.agm_bio import AGMBiO
from tiebreak.algorithms.levels import FixedLevels, GivenLevels, OnlineLevels
from tiebreak.algorithms.p_agm_bio import PAGMBiO
from tiebreak.algorithms.rivals.a_irg import AIRG
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.algorithms.rivals.bisec_bio import BisecBiO
from tiebreak.algorithms.rivals.cg_bio import CGBiO
from tiebreak.algorithms.rivals.pb_apg import PBAPG
from tiebreak.algorithms.rivals.r_apm import RAPM
from tiebreak.algorithms.rivals.sea import SEA
from tiebreak.exact.method import Exact

METHODS = {
    method.name: method
    for method in (
        *(AGMBiO, PAGMBiO, AdaptiveAGMBiO, Exact),
        *(AIRG, BiSG, SEA, CGBiO, RAPM, PBAPG, BisecBiO),
    )
}

__all__ = [
    "AIRG",
    "METHODS",
    "PBAPG",
    "RAPM",
    "SEA",
    "AGMBiO",
    "AdaptiveAGMBiO",
    "BiSG",
    "BisecBiO",
    "CGBiO",
    "Exact",
    "FixedLevels",
    "GivenLevels",
    "OnlineLevels",
    "PAGMBiO",
]
