"""The methods, one file per paper."""

from __future__ import annotations

from tiebreak.methods.agm_bio import AGMBiO, FixedLevels, GivenLevels, OnlineLevels

METHODS = {method.name: method for method in (AGMBiO,)}

__all__ = ["METHODS", "AGMBiO", "FixedLevels", "GivenLevels", "OnlineLevels"]
