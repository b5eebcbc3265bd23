"""Checks of the arguments of ``solve`` and ``certify``, before the first step."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from tiebreak.functions import (
    Function,
    LinearLoss,
    PointWithImage,
    Smooth,
    gradient_check,
    summands,
)
from tiebreak.linalg import Array, arrays, checks
from tiebreak.linalg.fingerprints import is_ours
from tiebreak.problem import Problem

SMALLEST, LARGEST = 1e-152, 1e152  # roughly the square roots of the smallest and largest floats


def need_problem(owner: str, problem: object) -> Problem:
    """Return the problem; raise TypeError if it is not a `Problem`."""
    if not isinstance(problem, Problem):
        got = checks.what_it_is(problem)
        raise TypeError(f"{owner}: problem must be a Problem(upper=f, lower=g), got {got}")
    return problem


def check_limits(owner: str, max_iter: object, max_time: object) -> None:
    """Require a whole number of steps, and a positive number of seconds or None."""
    checks.whole(owner, "max_iter", max_iter)
    if max_time is not None:
        checks.positive(owner, "max_time", max_time)


def tolerances(name: str, value: Any, owner: str = "solve") -> tuple[float, float]:
    """Return a pair of tolerances, from a pair or from one number for both levels."""
    is_pair = isinstance(value, Collection) and not isinstance(value, str)
    pair = list(value) if is_pair else [value] * 2
    if len(pair) != 2:
        raise ValueError(f"{owner}: {name} must be one number or a pair, got {len(pair)} numbers")
    upper, lower = (checks.at_least(owner, name, number) for number in pair)
    return upper, lower


def check_functions(owner: str, problem: Problem, x: Array) -> None:
    """Check that values and gradients are finite, and that no gradient is certainly wrong.

    Also check that each projection onto a set from outside the package is a new array.
    """
    Z = problem.domain
    if not is_ours(type(Z)) and Z.has_projection:
        first = Z.project(arrays.copied(x))
        if Z.project(arrays.copied(x)) is first:
            raise ValueError(
                f"{owner}: domain must have a project that returns a new array in every call, "
                "got the same array twice"
            )
    for name, h, penalty in zip(
        ("upper", "lower"), problem.smooth_parts, problem.penalties, strict=True
    ):
        check_size(owner, name, h)
        for part in _callables(h):
            # In a sum, a gradient of a wrong shape would raise NumPy's error, or be broadcast.
            if part is not h.bare:
                _check_slope(owner, name, part.gradient(x), x)
        ((_, smooth, slope, *_),), _ = h.evaluate([PointWithImage(x, *h.forward(x))])
        value = smooth + penalty.value(x)
        if not math.isfinite(value):
            raise ValueError(
                f"{owner}: the value of {name} must be finite at the start, got {value}"
            )
        _check_slope(owner, name, slope, x)
    if wrong := wrong_gradient(problem, x):
        raise ValueError(f"{owner}: {wrong}")


def _check_slope(owner: str, name: str, slope: Array, x: Array) -> None:
    """Require a gradient at x with an entry per variable, all of them finite real numbers."""
    if not arrays.is_array(slope) or tuple(slope.shape) != tuple(x.shape):
        raise ValueError(
            f"{owner}: the gradient of {name} must be a vector of {x.shape[0]} entries, "
            f"got {checks.what_it_is(slope)}"
        )
    if not arrays.is_real_floating(slope):
        raise TypeError(
            f"{owner}: the gradient of {name} must hold real floating-point numbers, "
            f"got dtype {slope.dtype}"
        )
    if not arrays.all_finite(slope):
        raise ValueError(
            f"{owner}: the gradient of {name} must be finite at the start, "
            "got NaN or infinite entries"
        )


def check_size(owner: str, name: str, h: Function) -> None:
    """Reject A if squares of entries over- or underflow; skip the check if a pass is expensive."""
    for _, part in summands(h.bare):
        if not isinstance(part, LinearLoss) or part.matrix.is_pass_expensive:
            continue
        if part.matrix.is_explicit or part.matrix.is_sparse:
            size = part.matrix.frobenius
            if size != 0.0 and not SMALLEST <= size <= LARGEST:
                raise ValueError(
                    f"{owner}: A of {type(part).__name__} in {name} must be between {SMALLEST:g} "
                    f"and {LARGEST:g} in size, or squares of its entries overflow or underflow; "
                    f"got |A| = {size:.2g}: rescale it"
                )


def wrong_gradient(problem: Problem, x: Array) -> str:
    """Return a sentence if a callable's gradient is certainly wrong near x, else ""."""
    for name, h in zip(("upper", "lower"), problem.smooth_parts, strict=True):
        for part in _callables(h):
            if said := gradient_check.wrong_slope(name, part, problem.domain, x):
                return said
    return ""


def _callables(h: Function) -> list[Smooth]:
    """Return the summands of h whose values and gradients come from the user's callables."""
    return [part for _, part in summands(h.bare) if isinstance(part, Smooth)]
