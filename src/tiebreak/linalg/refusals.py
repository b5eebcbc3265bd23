"""A value that says why a method, a prox or a factorisation rejects its input."""

from __future__ import annotations

from collections.abc import Callable


class Refusal(ValueError):
    """Says who refuses which argument, what is needed and what was passed.

    A Refusal is returned as a value if the caller may choose something else, and raised as a
    ValueError if there is no alternative.

    Args:
        owner: who refuses, such as "AGMBiO".
        argument: what is refused, such as "upper" or "domain".
        needed: what the argument must be, with the verb: "must be smooth".
        got: what the argument is instead; "" if ``needed`` says it all.
        hint: what else could be done; "" if nothing.
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
        """The whole message as one sentence."""
        got = f", got {self.got}" if self.got else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.owner}: {self.argument} {self.needed}{got}{hint}"

    def __str__(self) -> str:
        return self.sentence


def refusal_of(build: Callable[[], object]) -> Refusal | None:
    """The reason why ``build`` fails; None if it succeeds."""
    try:
        build()
    except Refusal as refusal:
        return refusal
    return None


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error for a missing package, with an installation command that works everywhere."""
    return ImportError(
        f"{what} needs {package}: pip install {package} (tiebreak's extra [{extra}])"
    )
