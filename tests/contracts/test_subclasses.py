"""What the library knows of a class ends where a subclass overrides something of it.

For every public function, penalty and set: a subclass that says something else is solved for what
it says, or refused in one sentence; one that overrides nothing keeps all that is known of its base.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.functions.base import Function, SmoothFunction
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.penalties.composite import Composite
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.linalg.fingerprints import FromData, known, overridden
from tiebreak.sets.base import Set
from tiebreak.sklearn.criteria import on_coefficients
from tiebreak.sklearn.design import Layout

METHODS = ("auto", "exact", "conic", "adaptive")
N = 4
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((6, N)), RNG.standard_normal(6)
ROWS, TARGET = RNG.standard_normal((2, N)), RNG.standard_normal(2)
WISH = np.array([1.0, -2.0, 0.5, 0.25])  # where the functions of the user have their minimum
EXACT_ROOM = 1e-6  # between a bound of the library's and an answer by NumPy

FUNCTIONS: dict[str, Any] = {
    "LeastSquares": lambda kind: kind(A, B),
    "Logistic": lambda kind: kind(A, np.sign(B)),
    "Huber": lambda kind: kind(A, B, 0.5),
    "SquaredHinge": lambda kind: kind(A, np.sign(B)),
    "Poisson": lambda kind: kind(A, np.ones(6)),
    "Multinomial": lambda kind: kind(A[:, :2], np.arange(6) % 2),
    "Quadratic": lambda kind: kind(A.T @ A, B[:N]),
    "SquaredNorm": lambda kind: kind(2.0, B[:N]),
    "Linear": lambda kind: kind(B[:N]),
    "Smooth": lambda kind: kind(lambda x: float(x @ x), lambda x: 2.0 * x, lipschitz=2.0),
}
PENALTIES: dict[str, Any] = {
    "L1": lambda kind: kind(),
    "L2": lambda kind: kind(),
    "ElasticNet": lambda kind: kind(1.0, 2.0),
    "GroupL2": lambda kind: kind([0, 0, 1, 1]),
    "Indicator": lambda kind: kind(tb.Ball(2.0)),
    "TotalVariation": lambda kind: kind(),
    "Quantile": lambda kind: kind(A, B, 0.3),
    "Hinge": lambda kind: kind(A, np.sign(B)),
    "LInf": lambda kind: kind(),
    "NuclearNorm": lambda kind: kind((2, 2)),
    "Zero": lambda kind: kind(),
}
SETS: dict[str, Any] = {
    "Space": lambda kind: kind(),
    "Ball": lambda kind: kind(3.0),
    "Box": lambda kind: kind(-1.0, 1.0),
    "Orthant": lambda kind: kind(),
    "Simplex": lambda kind: kind(),
    "L1Ball": lambda kind: kind(1.0),
    "Monotone": lambda kind: kind(),
    "Halfspace": lambda kind: kind(np.ones(N), 1.0),
    "Polyhedron": lambda kind: kind(np.eye(N), np.ones(N)),
    "SecondOrderCone": lambda kind: kind(np.eye(N), d=1.0),
    "Intersection": lambda kind: kind(tb.Ball(2.0), tb.Halfspace(np.ones(N), 1.0)),
}
MAKERS = FUNCTIONS | PENALTIES | SETS


def base(name: str) -> Any:
    return getattr(tb, name)


def public() -> set[str]:
    kinds = {name: base(name) for name in tb.__all__ if isinstance(base(name), type)}
    return {name for name, kind in kinds.items() if issubclass(kind, Function | Penalty | Set)}


def members(kind: type) -> list[str]:
    """What a subclass can override: all but parameters and what only Python calls."""
    not_asked = {*getattr(kind, "__dataclass_fields__", {}), "is_open", "without_structure"}
    return [n for n in dir(kind) if not n.startswith("__") and n not in not_asked]


OTHER = object()  # stands for a member of the user's own


def as_problem(name: str, given: Any, **others: Any) -> tb.Problem:
    """A problem with the object as its lower level or as its domain."""
    fit, wish = tb.LeastSquares(ROWS, TARGET), tb.SquaredNorm(center=WISH)
    if name in SETS:
        return tb.Problem(upper=wish, lower=fit, domain=given)
    return tb.Problem(upper=wish, lower=given, **others)


# --- which subclass it is -------------------------------------------------------------------------


def test_every_public_function_penalty_and_set_is_here():
    assert public() == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_a_class_of_the_package_overrides_nothing(name):
    assert overridden(base(name)) == ()
    given = MAKERS[name](base(name))
    assert known(given) is given


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", MAKERS)
def test_every_member_that_a_subclass_overrides_is_noticed(name):
    for member in members(base(name)):
        own = {member: OTHER}
        kind, mixin = type("Mine", (base(name),), own), type("Mixin", (), own)
        assert overridden(kind) == (member,)
        assert overridden(type("Child", (kind,), {})) == (member,)
        assert overridden(type("Mixed", (mixin, base(name)), {})) == (member,)
        assert overridden(type("Behind", (base(name), mixin), {})) == ()


@pytest.mark.parametrize("name", MAKERS)
def test_what_changes_no_answer_keeps_the_structure(name):
    class Mine(base(name)):  # type: ignore[misc]
        """With a memory, a method and a name of its own."""

        colour = "red"

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)

        def __repr__(self) -> str:
            return "mine"

        def plot(self) -> None:
            """New, so that it overrides nothing."""

    given = MAKERS[name](Mine)
    assert overridden(Mine) == ()
    assert known(given) is given
    assert known(copy.deepcopy(given)).colour == "red"


def test_another_default_of_a_parameter_is_no_override():
    @dataclasses.dataclass(frozen=True)
    class Wide(tb.Ball):
        radius: float = 7.0

    assert overridden(Wide) == ()
    assert known(Wide()).radius == 7.0


@pytest.mark.parametrize("kind", [FromData, Function, SmoothFunction, LinearLoss, Penalty, Set])
def test_a_class_that_is_made_to_be_derived_from_is_not_overridden(kind):
    names = [name for name in dir(kind) if not name.startswith("__")]
    assert overridden(type("Mine", (kind,), dict.fromkeys(names))) == ()


@pytest.mark.parametrize("method", ["exact", "auto"])
def test_a_subclass_that_overrides_nothing_is_certified_as_its_base_is(method):
    class Fit(tb.LeastSquares):
        def __repr__(self):
            return "fit"

    class Norm(tb.SquaredNorm):
        pass

    class Round(tb.Ball):
        pass

    plain = tb.Problem(
        lower=tb.LeastSquares(ROWS, TARGET), upper=tb.SquaredNorm(), domain=tb.Ball(9.0)
    )
    mine = tb.Problem(lower=Fit(ROWS, TARGET), upper=Norm(), domain=Round(9.0))
    ours, theirs = tb.solve(plain, method), tb.solve(mine, method)
    assert ours.status == theirs.status == "certified"
    np.testing.assert_array_equal(ours.x, theirs.x)


# --- functions ------------------------------------------------------------------------------------


def wishing(name: str, scale: float = 1.0) -> Any:
    """An object of a subclass whose value is scale/2 |x - WISH|², whatever its base says."""

    class Mine(base(name)):  # type: ignore[misc]
        def value(self, x):
            return 0.5 * scale * float(np.sum((x - WISH) ** 2))

        def gradient(self, x):
            return scale * (x - WISH)

    return MAKERS[name](Mine)


def nearest(rows: np.ndarray, target: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The solution of rows x = target nearest to the point."""
    return point + np.linalg.lstsq(rows, target - rows @ point, rcond=None)[0]


def solved(problem: tb.Problem, method: str) -> Any:
    """The result of a method, or the sentence with which it refuses the problem."""
    try:
        return tb.solve(problem, method, x0=np.zeros(N), max_iter=1000, max_time=20)
    except ValueError as error:
        return str(error)


def check(problem: tb.Problem, method: str, x: np.ndarray, f: Any, g: Any) -> None:
    """The answer of a method is x, or it says that it has none, or it refuses the problem."""
    result = solved(problem, method)
    if method in ("exact", "conic"):
        assert re.match(
            rf"{method.capitalize()}: (upper|lower|level .) must (consist|be made) of ", result
        )
        return
    best_f, best_g = f(x), g(x)
    assert result.upper_value == pytest.approx(f(result.x), rel=1e-9, abs=1e-9)
    assert result.lower_value == pytest.approx(g(result.x), rel=1e-9, abs=1e-9)
    for (low, high), best in ((result.upper_optimum, best_f), (result.lower_optimum, best_g)):
        room = EXACT_ROOM * (1.0 + abs(best))
        assert low - room <= best <= high + room
    assert result.success or method == "adaptive"
    assert g(result.x) - best_g <= 2e-3 * (1.0 + abs(g(np.zeros(N))))
    np.testing.assert_allclose(result.x, x, atol=0.05)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_below_is_minimised_as_it_says_itself(name, method):
    mine, upper = wishing(name), tb.SquaredNorm(center=np.ones(N))
    problem = tb.Problem(lower=mine, upper=upper, domain=tb.Ball(10.0))
    assert isinstance(problem.lower, tb.Smooth)
    check(problem, method, WISH, upper.value, mine.value)


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_above_chooses_as_it_says_itself(name, method):
    mine, lower = wishing(name), tb.LeastSquares(ROWS, TARGET)
    problem = tb.Problem(lower=lower, upper=mine, domain=tb.Ball(10.0))
    check(problem, method, nearest(ROWS, TARGET, WISH), mine.value, lower.value)


SUMS = {
    "scaled": lambda h: 2.0 * h,
    "first": lambda h: h + tb.SquaredNorm(center=WISH),
    "second": lambda h: tb.SquaredNorm(center=WISH) + h,
    "of sums": lambda h: 0.5 * (tb.SquaredNorm(center=WISH) + 3.0 * h) + tb.SquaredNorm(1.0, WISH),
}


@pytest.mark.sample(16)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["LeastSquares", "Logistic", "Quadratic", "SquaredNorm"])
@pytest.mark.parametrize("kind", SUMS)
def test_a_part_of_a_sum_is_what_it_says_itself(kind, name, method):
    h, lower = SUMS[kind](wishing(name)), tb.LeastSquares(ROWS, TARGET)
    problem = tb.Problem(lower=lower, upper=h, domain=tb.Ball(10.0))
    check(problem, method, nearest(ROWS, TARGET, WISH), h.value, lower.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_function_with_a_penalty_is_what_it_says_itself(method):
    """argmin of ½|x - WISH|² + ½|x|_1 is the soft threshold of WISH."""
    h, upper = wishing("LeastSquares") + tb.L1(0.5), tb.SquaredNorm()
    assert isinstance(h, Composite)
    assert isinstance(h.smooth, tb.Smooth)
    x = np.sign(WISH) * np.maximum(np.abs(WISH) - 0.5, 0.0)
    check(tb.Problem(lower=h, upper=upper, radius=10.0), method, x, upper.value, h.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_constants_that_the_class_states_are_kept(name):
    silent = known(wishing(name))
    assert (silent.lipschitz, silent.strong_convexity) == (math.inf, 0.0)
    assert silent.lower_bound == -math.inf


def test_constants_that_the_class_states_are_kept():
    class Mine(tb.Logistic):
        lipschitz = 3.0
        strong_convexity = 0.5
        lower_bound = -2.0

    smooth = known(FUNCTIONS["Logistic"](Mine))
    assert isinstance(smooth, tb.Smooth)
    assert (smooth.lipschitz, smooth.strong_convexity, smooth.lower_bound) == (3.0, 0.5, -2.0)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("member", ["value", "gradient", "evaluate_async", "forward", "matrix"])
def test_one_member_alone_is_enough_to_lose_the_structure(name, member):
    given = MAKERS[name](base(name))
    given.__class__ = type("Mine", (base(name),), {member: lambda self, *xs: 0.0})
    assert isinstance(as_problem(name, given, domain=tb.Ball(3.0)).lower, tb.Smooth)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_without_its_gradient_is_refused(name):
    class Mine(base(name)):  # type: ignore[misc]
        def value(self, x):
            return super().value(x) + 50.0 * float(np.sum(x**2)) + float(np.sum(x))

    problem = as_problem(name, MAKERS[name](Mine), domain=tb.Ball(3.0))
    with pytest.raises(ValueError, match="the gradient of lower does not match its values"):
        tb.solve(problem, x0=np.full(N, 0.5), max_iter=500)


def test_a_report_says_how_the_function_was_taken():
    problem = as_problem("LeastSquares", wishing("LeastSquares"), domain=tb.Ball(10.0))
    said = str(tb.solve(problem))
    assert "Mine has its own gradient, value: treated as a Smooth" in said
    assert "Assumes that lower is convex, with correct gradients" in said


@pytest.mark.parametrize("kind", SUMS)
def test_new_numbers_in_the_arrays_of_a_subclass_are_noticed(kind):
    """They are in what the user made, of which a sum knows the value and the gradient alone."""

    class Doubled(tb.LeastSquares):
        def value(self, x):
            return 2.0 * super().value(x)

        def gradient(self, x):
            return 2.0 * super().gradient(x)

    target = TARGET.copy()
    problem = as_problem("LeastSquares", SUMS[kind](Doubled(ROWS, target)), domain=tb.Ball(10.0))
    tb.solve(problem, max_iter=5)
    target[:] = [0.5, -0.5]
    with pytest.raises(ValueError, match=r"^Doubled: b must hold the same numbers as when"):
        tb.solve(problem, max_iter=5)


def test_a_subclass_cannot_be_saved(tmp_path):
    problem = as_problem("LeastSquares", wishing("LeastSquares"))
    with pytest.raises(TypeError, match=r"lower must be .* to be saved, got .*Mine"):
        problem.save(tmp_path / "one.npz")


# --- penalties ------------------------------------------------------------------------------------


def largest_entry(name: str) -> Any:
    class Mine(base(name)):  # type: ignore[misc]
        def value(self, x):
            return float(np.max(np.abs(x)))

        def prox(self, x, step):
            return x

    return PENALTIES[name](Mine)


DOORS: dict[str, Any] = {
    "upper": lambda p: tb.Problem(lower=tb.LeastSquares(ROWS, TARGET), upper=p),
    "lower": lambda p: tb.Problem(lower=p, upper=tb.SquaredNorm(center=WISH)),
    "with a smooth part": lambda p: tb.LeastSquares(ROWS, TARGET) + p,
    "with a smooth part behind": lambda p: p + tb.LeastSquares(ROWS, TARGET),
    "with a composite": lambda p: (tb.LeastSquares(ROWS, TARGET) + tb.Zero()) + p,
    "with a penalty": lambda p: tb.Zero() + p,
    "before a penalty": lambda p: p + tb.Zero(),
    "scaled": lambda p: tb.Problem(lower=tb.LeastSquares(ROWS, TARGET), upper=2.0 * p),
    "level": tb.Level,
    "levels": lambda p: tb.Levels(tb.LeastSquares(ROWS, TARGET), p, tb.SquaredNorm()),
    "minimize": lambda p: tb.minimize(p, tb.LeastSquares(ROWS, TARGET), np.zeros(N)),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("door", DOORS)
def test_a_penalty_that_says_something_else_is_refused(door, name):
    with pytest.raises(
        TypeError, match=r"^Mine: prox, value must be as in its tiebreak base class"
    ):
        DOORS[door](largest_entry(name))


@pytest.mark.parametrize("name", PENALTIES)
def test_a_penalty_is_refused_whatever_it_overrides(name):
    for member in members(base(name)):
        given = PENALTIES[name](base(name))
        object.__setattr__(given, "__class__", type("Mine", (base(name),), {member: OTHER}))
        with pytest.raises(
            TypeError, match=f"^Mine: {member} must be as in its tiebreak base class"
        ):
            tb.Level(given)


def test_a_penalty_without_terms_is_refused_in_one_sentence():
    class Mine(Penalty):
        pass

    with pytest.raises(TypeError, match=r"^Mine: terms must be defined"):
        tb.Problem(lower=tb.LeastSquares(ROWS, TARGET), upper=Mine())


# --- sets -----------------------------------------------------------------------------------------

SMALL = tb.Box(0.0, 0.5)
SET_DOORS: dict[str, Any] = {
    "problem": lambda z: as_problem("Ball", z),
    "levels": lambda z: tb.Levels(tb.LeastSquares(ROWS, TARGET), tb.SquaredNorm(), domain=z),
    "three levels": lambda z: tb.Levels(
        tb.LeastSquares(ROWS, TARGET), tb.L1(), tb.SquaredNorm(), domain=z
    ),
    "indicator": lambda z: as_problem("L1", tb.LeastSquares(ROWS, TARGET) + tb.Indicator(z)),
    "intersection": lambda z: tb.Intersection(z, tb.Ball(1.0)),
    "and": lambda z: z & tb.Ball(1.0),
    "and behind": lambda z: tb.Space() & z,
    "minimize": lambda z: tb.minimize(
        tb.SquaredNorm(), tb.LeastSquares(ROWS, TARGET), np.zeros(N), domain=z
    ),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("door", SET_DOORS)
def test_a_set_with_another_projection_alone_is_refused(door, name):
    class Mine(base(name)):  # type: ignore[misc]
        def project(self, x):
            return SMALL.project(x)

    with pytest.raises(TypeError, match=r"^Mine: project_cut, support, argmin must be overridden"):
        SET_DOORS[door](SETS[name](Mine))


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_refused_whatever_one_member_it_overrides(name):
    for member in members(base(name)):
        given = SETS[name](base(name))
        object.__setattr__(given, "__class__", type("Mine", (base(name),), {member: OTHER}))
        with pytest.raises(TypeError, match=rf"^Mine: .* must be overridden .* {member}, got"):
            known(given)


def small(name: str) -> Any:
    """An object of a subclass that is the box of SMALL, whatever its base says."""

    class Mine(base(name)):  # type: ignore[misc]
        def project(self, x):
            return SMALL.project(x)

        def project_cut(self, x, normal, offset, guess=None):
            return SMALL.project_cut(x, normal, offset, guess)

        def support(self, direction):
            return SMALL.support(direction)

        def argmin(self, direction):
            return SMALL.argmin(direction)

    return SETS[name](Mine)


@pytest.mark.sample(16)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SETS)
def test_a_set_that_says_all_itself_is_what_it_says(name, method):
    rows, target = np.ones((1, N)), np.array([0.75])
    lower, upper = tb.LeastSquares(rows, target), tb.SquaredNorm(center=np.array([3.0, 1, 0, -1]))
    problem = tb.Problem(lower=lower, upper=upper, domain=small(name))
    x = np.array([0.5, 0.25, 0.0, 0.0])  # the box cuts off the first entry, the sum the second
    result = solved(problem, method)
    if method in ("exact", "conic"):
        assert re.match(rf"{method.capitalize()}: domain must be .* got Mine", result)
        return
    assert result.success or method == "adaptive"
    np.testing.assert_allclose(result.x, x, atol=1e-2)
    np.testing.assert_allclose(result.x, SMALL.project(result.x), atol=1e-9)
    assert result.upper_optimum[0] <= upper.value(x) + 1e-6 <= result.upper_optimum[1] + 2e-6
    assert result.lower_optimum[0] <= 1e-6


@pytest.mark.parametrize("name", SETS)
def test_nothing_of_the_base_is_left_in_a_set_that_says_all_itself(name):
    mine = known(small(name))
    assert not isinstance(mine, base(name))
    assert mine.farthest(np.zeros(N)) == mine.diameter_in(N) == math.inf
    assert mine.contains(np.full(N, 0.25))
    assert not mine.contains(np.full(N, 0.75))
    assert mine.has_projection
    mine.check(N)


# --- every way in ---------------------------------------------------------------------------------


def chosen() -> tuple[tb.Problem, np.ndarray]:
    """A problem with a subclass above, and its solution."""
    lower = tb.LeastSquares(ROWS, TARGET)
    problem = tb.Problem(lower=lower, upper=wishing("LeastSquares"), domain=tb.Ball(10.0))
    return problem, nearest(ROWS, TARGET, WISH)


def test_certify_takes_a_subclass_as_it_says_itself():
    problem, x = chosen()
    proof = tb.certify(problem, x, max_iter=2000)
    best = 0.5 * float(np.sum((x - WISH) ** 2))
    assert proof.upper_value == pytest.approx(best)
    assert proof.upper_optimum[0] <= best + 1e-9


def test_compare_takes_a_subclass_as_it_says_itself():
    problem, x = chosen()
    race = tb.compare(problem, ["adaptive"], max_iter=300)
    assert math.isnan(race.answer.upper)  # which Exact knows of the base
    given = tb.Answer(problem.upper.value(x), 0.0)
    assert tb.compare(problem, ["adaptive"], answer=given, max_iter=300).answer == given


def test_minimize_takes_a_subclass_as_it_says_itself():
    problem, x = chosen()
    result = tb.minimize(wishing("LeastSquares"), problem.lower, np.zeros(N), domain=tb.Ball(10.0))
    assert result.success
    np.testing.assert_allclose(result.x, x, atol=0.05)


def test_two_levels_take_a_subclass_as_it_says_itself():
    mine, lower = wishing("LeastSquares"), tb.LeastSquares(ROWS, TARGET)
    result = tb.solve(tb.Levels(lower, mine, domain=tb.Ball(10.0)))
    assert result.success
    np.testing.assert_allclose(result.x, nearest(ROWS, TARGET, WISH), atol=0.05)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "Smooth"])
def test_a_chain_refuses_a_subclass_in_one_sentence(name, place):
    levels = [tb.LeastSquares(ROWS, TARGET), tb.L1(), tb.SquaredNorm()]
    levels[place] = wishing(name)
    with pytest.raises(ValueError, match=rf"level {place + 1} must .* got Smooth"):
        tb.solve(tb.Levels(*levels, domain=tb.Box(-9.0, 9.0)))


def test_tradeoff_refuses_a_subclass_in_one_sentence():
    with pytest.raises(ValueError, match=r"level 2 must .* got Smooth"):
        tb.tradeoff(chosen()[0])


@pytest.mark.parametrize("has_column", [False, True])
def test_an_estimator_prefers_what_a_subclass_says_itself(has_column):
    layout = Layout(N, 1, has_column)
    mine = on_coefficients("Estimator", wishing("SquaredNorm"), layout)
    ours = on_coefficients("Estimator", tb.SquaredNorm(center=WISH), layout)
    x = RNG.standard_normal(layout.width)
    assert mine.value(x) == pytest.approx(ours.value(x))
    np.testing.assert_allclose(mine.gradient(x), ours.gradient(x))
