"""PrimalDual with a penalty of D x above, which ends by its own estimate: nobody else can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms.primal_dual import PrimalDual, State
from tiebreak.proofs.certificate import Proved
from tiebreak.proofs.gate import ANSWER, Ended

ESTIMATED = (
    "f less its dual, and the price of what the lower level is off, are within the tolerance; "
    "nothing proves f* where an operator is known by its products alone"
)


@dataclass(frozen=True)
class EndingPrimalDual(PrimalDual):
    """PrimalDual that ends where its dual point says that f is close to f*."""

    adapts: ClassVar[bool] = True

    def adapt(self, state: State, proved: Proved) -> State:
        """The same state, or its end."""
        dual, (upper, lower) = state.dual, proved.asked
        if dual is None or dual.gap > upper or proved.standing.lower_gap > lower:
            return state
        return state._replace(dual=dual._replace(finished=Ended(ANSWER, ESTIMATED)))
