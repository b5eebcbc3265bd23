"""Why a method, a prox or a factorisation does not take what it was given, as a value."""

from __future__ import annotations

from collections.abc import Callable


class Refusal(ValueError):
    """Who refuses, which argument, what is needed of it and what it got.

    Returned as a value where the caller may choose something else, raised as the ValueError that it
    is if there is no other choice.

    Args:
        owner: who refuses, such as "AGMBiO".
        argument: what is refused: "upper", "domain".
        needed: of what kind it has to be, with the verb: "must be smooth".
        got: what it is instead; "" where ``needed`` says it all.
        hint: what else could be done, "" if nothing.
    """

    def __init__(
        self, owner: str, argument: str, needed: str, got: str = "", hint: str = ""
    ) -> None:
        super().__init__(owner, argument, needed, got, hint)
        self.owner: str = owner
        self.argument: str = argument
        self.needed: str = needed
        self.got: str = got
        self.hint: str = hint

    @property
    def sentence(self) -> str:
        """All of it in one sentence, as a user reads it."""
        got = f", got {self.got}" if self.got else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.owner}: {self.argument} {self.needed}{got}{hint}"

    def __str__(self) -> str:
        return self.sentence


def refusal_of(build: Callable[[], object]) -> Refusal | None:
    """Why ``build`` cannot be done, None if it can."""
    try:
        build()
    except Refusal as refusal:
        return refusal
    return None
