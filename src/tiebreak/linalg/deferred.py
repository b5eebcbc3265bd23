"""Values that are computed on demand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


class Deferred:
    """A value that is computed once, on first use."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute

    @cached_property
    def value(self) -> Any:
        return self._compute()

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value}  # a pickle cannot hold ``compute``


def resolved(value: Any) -> Any:
    """The value itself, computed if it was deferred."""
    return value.value if isinstance(value, Deferred) else value


class _Field:
    """A dataclass field that may be set to a `Deferred`; reading the field computes the value."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = resolved(instance.__dict__[self._name])
        return found

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = value


def deferring(name: str) -> Callable[[Kind], Kind]:
    """Decorate a dataclass so that its field ``name`` may be set to a `Deferred`."""

    def prepared(kind: Kind) -> Kind:
        setattr(kind, name, _Field(name))
        return kind

    return prepared
