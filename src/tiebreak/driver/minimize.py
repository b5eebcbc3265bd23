"""Solving with plain Python functions, in the style of scipy.optimize.minimize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiebreak.driver.result import Result
from tiebreak.driver.solve import solve
from tiebreak.functions import Function, Penalty, Smooth, split
from tiebreak.functions.gradient_check import check_gradient
from tiebreak.linalg import Array, arrays, checks
from tiebreak.problem import ErrorBound, Problem
from tiebreak.sets import Domain, Space

Level = Callable[..., Any] | Function | Penalty


def minimize(
    upper: Level,
    lower: Level,
    x0: Any,
    *,
    jac: Any = None,
    args: Any = (),
    domain: Domain | None = None,
    radius: float | None = None,
    error_bound: ErrorBound | None = None,
    check_gradients: bool = False,
    **options: Any,
) -> Result:
    """Minimise ``upper`` over all minimisers of ``lower``: two convex functions of a vector x.

        min f(x)   subject to   x in argmin_{z in Z} g(z)

    Args:
        upper: f, a callable of x that returns a number; or a tiebreak function or penalty, such as
            ``LeastSquares(A, b)`` or ``L1()``.
        lower: g, given in one of the same ways.
        x0: where to start, a vector from any array library; callables receive vectors of the same
            kind.
        jac: the pair (gradient of upper, gradient of lower), with None for a level that is not a
            callable. True instead of a gradient says that the function returns (value, gradient);
            True instead of the pair says so for both functions. Gradients are required, never
            approximated.
        args: further arguments of the callables and of their gradients, as in SciPy: one tuple
            for all, or a pair of tuples (for upper, for lower).
        domain: Z; all of R^n if None. Bounds are ``Box(lower, upper)``.
        radius, error_bound: see ``Problem``. Without a bounded domain, most proofs need a
            ``radius``.
        check_gradients: check each gradient once, near x0, against differences of the values
            (six to twelve values per variable), and name the coordinate that is wrong.
        **options: passed on to ``solve``: method, rtol, atol, criterion, max_iter, max_time,
            callback, progress, checkpoint.

    Returns:
        The Result of ``solve``: ``x``, ``upper_value`` and ``lower_value`` (SciPy's ``fun``), the
        proved gaps, ``nit``, ``success``, ``message``; ``trace[-1]`` counts the gradients.

    You need not give a Lipschitz constant. If you know a Lipschitz constant, strong convexity or a
    lower bound, pass ``Smooth(value, gradient, ...)`` instead of the callable: this may help the
    proof.

    Examples:
        >>> def f(x):
        ...     return x @ x, 2 * x  # value and gradient
        >>> def g(x):
        ...     return (x[0] + x[1] - 2) ** 2, 2 * (x[0] + x[1] - 2) * np.ones(2)
        >>> tb.minimize(f, g, np.zeros(2), jac=True, radius=2.0).x.round(2)
        array([1., 1.])
    """
    checks.flag("minimize", "check_gradients", check_gradients)
    extra = _arguments(args, upper, lower)
    gradients = _gradients(jac)
    f, g = (
        _level(name, given, gradient, more)
        for name, given, gradient, more in zip(
            ("upper", "lower"), (upper, lower), gradients, extra, strict=True
        )
    )
    problem = Problem(
        upper=f,
        lower=g,
        domain=Space() if domain is None else domain,
        radius=radius,
        error_bound=error_bound,
    )
    start = problem.domain.projected(problem.point(x0, "minimize", "x0", is_start=True))
    if check_gradients:
        for name, level in (("upper", f), ("lower", g)):
            smooth, _ = split(level)
            if isinstance(smooth, Smooth):
                smooth.value(start)  # at the start first, because Smooth stores the sizes there
                smooth.gradient(start)
                check_gradient("minimize", name, smooth, problem.domain, start)
    return solve(problem, x0=start, **options)


class Callables(Smooth, keyword=""):
    """A level given by callables: a Smooth that names the level in its messages."""

    _owner = "minimize"

    def __init__(self, level: str, value: Callable[..., Any], gradient: Any, args: Any) -> None:
        self._value_name = level
        self._pair: tuple[Array, Any, Any] | None = None  # the last point, value and gradient

        def both(x: Array) -> tuple[Any, Any]:
            """Return the value and the gradient at x with a single call of the user's function."""
            if self._pair is None or not _same(self._pair[0], x):
                at, pair = arrays.own(x, x), value(x, *args)
                if not (isinstance(pair, tuple | list) and len(pair) == 2):
                    raise TypeError(
                        f"minimize: {level} must be a callable that returns (value, gradient) "
                        f"with jac=True, got {checks.what_it_is(pair)}"
                    )
                # copies, because the other level may use the same buffers
                kept = (arrays.copied(part) if arrays.is_array(part) else part for part in pair)
                self._pair = at, *kept
            return self._pair[1:]

        if gradient is True:
            super().__init__(lambda x: both(x)[0], lambda x: both(x)[1])
        else:
            super().__init__(lambda x: value(x, *args), lambda x: gradient(x, *args))

    def gradient(self, x: Array) -> Array:
        slope = super().gradient(x)
        needed = f"minimize: the gradient of {self._value_name} must be a vector of {x.shape[0]} "
        if not arrays.is_array(slope) or slope.shape != x.shape:
            raise ValueError(f"{needed}entries, got {checks.what_it_is(slope)}")
        if not arrays.is_real(slope):
            raise TypeError(f"{needed}real numbers, got dtype {slope.dtype}")
        return slope


def _same(x: Array, y: Array) -> bool:
    return x.shape == y.shape and bool(arrays.namespace(x).all(x == y))


# -- the arguments


def _level(name: str, given: Any, gradient: Any, args: tuple[Any, ...]) -> Function | Penalty:
    """Convert the user's argument to a function or penalty; raise a clear error if that fails."""
    if isinstance(given, Function | Penalty):
        if callable(gradient):
            raise ValueError(
                f"minimize: jac of {name} must be None because {type(given).__name__} computes its "
                f"own gradient, got {type(gradient).__name__}"
            )
        return given
    if not callable(given) or isinstance(given, type):
        raise TypeError(
            f"minimize: {name} must be a callable of x or a function such as LeastSquares(A, b), "
            f"got {checks.what_it_is(given)}"
        )
    if gradient is None or gradient is False:
        raise ValueError(
            f"minimize: jac must give the gradient of {name}, got {gradient} (True says that "
            f"{name} returns value and gradient; gradients are never approximated)"
        )
    if gradient is not True and (not callable(gradient) or isinstance(gradient, type)):
        raise TypeError(
            f"minimize: jac of {name} must be a callable of x or True, "
            f"got {_quoted(gradient)}; gradients are never approximated"
        )
    return Callables(name, given, gradient, args)


def _gradients(jac: Any) -> tuple[Any, Any]:
    """Return ``jac`` as a pair, for upper and for lower."""
    if jac is None or isinstance(jac, bool):
        return jac, jac
    if not isinstance(jac, tuple | list) or len(jac) != 2:
        got = f"{len(jac)} entries" if isinstance(jac, tuple | list) else _quoted(jac)
        raise TypeError(
            "minimize: jac must be a pair (gradient of upper, gradient of lower) or True, "
            f"got {got}; gradients are never approximated"
        )
    return jac[0], jac[1]


def _arguments(args: Any, *levels: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return ``args`` as a pair of tuples; any other value is a single argument, as in SciPy."""
    shared = args if isinstance(args, tuple) else (args,)
    if len(shared) != 2 or not all(isinstance(part, tuple) for part in shared):
        return shared, shared
    for name, level, part in zip(("upper", "lower"), levels, shared, strict=True):
        if part and isinstance(level, Function | Penalty):
            raise ValueError(
                f"minimize: args of {name} must be empty because {type(level).__name__} takes "
                f"none, got {len(part)}"
            )
    return shared[0], shared[1]


def _quoted(value: object) -> str:
    return repr(value) if isinstance(value, str) else checks.what_it_is(value)
