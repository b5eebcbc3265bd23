"""PrimalDual for a penalty on D x in f: it ends by its own estimate, without a proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms.primal_dual import PrimalDual, State
from tiebreak.proofs.certificate import Proved
from tiebreak.proofs.gate import ANSWER, Ended

ESTIMATED = (
    "f minus its dual, and the cost of the lower level's error, are within the tolerance; "
    "nothing proves f* if an operator is known only by its products"
)


@dataclass(frozen=True)
class EndingPrimalDual(PrimalDual):
    """PrimalDual that ends when its dual point says that f is close to f*."""

    adapts: ClassVar[bool] = True

    def adapt(self, state: State, proved: Proved) -> State:
        """Return the state, ended if the estimate is small enough."""
        dual, (upper, lower) = state.dual, proved.asked
        if dual is None or dual.gap > upper or proved.standing.lower_gap > lower:
            return state
        return state._replace(dual=dual._replace(finished=Ended(ANSWER, ESTIMATED)))
