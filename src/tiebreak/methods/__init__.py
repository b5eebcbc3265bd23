"""The methods, one file per paper."""

from __future__ import annotations

from tiebreak.methods.a_irg import AIRG
from tiebreak.methods.accelerated import FixedLevels, GivenLevels, OnlineLevels
from tiebreak.methods.adaptive import AdaptiveAGMBiO
from tiebreak.methods.agm_bio import AGMBiO
from tiebreak.methods.bi_sg import BiSG
from tiebreak.methods.bisec_bio import BisecBiO
from tiebreak.methods.cg_bio import CGBiO
from tiebreak.methods.exact import Exact
from tiebreak.methods.p_agm_bio import PAGMBiO
from tiebreak.methods.pb_apg import PBAPG
from tiebreak.methods.r_apm import RAPM
from tiebreak.methods.sea import SEA

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
