"""The built-in problems: what they claim about themselves, checked from outside the library."""

from __future__ import annotations

import json
import sys
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, linprog

import tiebreak as tb
from tiebreak.catalog import datasets, hansen, wikipedia
from tiebreak.catalog.built import Built
from tiebreak.catalog.datasets import breast_cancer
from tiebreak.catalog.instances import instance, instances, table
from tiebreak.catalog.wikipedia import DAYS, PAGES
from tiebreak.functions.elementary import Flat
from tiebreak.functions.penalties.composite import Composite

NAMES = [one.name for one in instances()]


@pytest.fixture(scope="module")
def built():
    """All instances, built without parameters, each once."""
    made: dict[str, Built] = {}

    def build(name: str) -> Built:
        if name not in made:
            made[name] = instance(name)
        return made[name]

    return build


# --- in CVXPY's words ----------------------------------------------------------------------------


def in_cvxpy(function, x):
    """A function of the library as a CVXPY expression, from its data alone."""
    if isinstance(function, Composite):
        return in_cvxpy(function.smooth, x) + in_cvxpy(function.penalty, x)
    if isinstance(function, tb.L1):
        return function.weight * cp.norm1(x)
    if isinstance(function, tb.GroupL2):
        labels = function.groups.labels
        return function.weight * sum(cp.norm2(x[labels == j]) for j in range(function.groups.count))
    if isinstance(function, Flat):
        return 0.0
    scale = getattr(function, "scale", 1.0)
    if isinstance(function, tb.LeastSquares):
        return 0.5 * scale * cp.sum_squares(function.matrix.dense() @ x - function.b)
    if isinstance(function, tb.Logistic):
        return scale * cp.sum(cp.logistic(-cp.multiply(function.y, function.matrix.dense() @ x)))
    if isinstance(function, tb.Quadratic):
        return 0.5 * cp.quad_form(x, cp.psd_wrap(function.matrix.dense()))
    assert isinstance(function, tb.SquaredNorm)
    assert function.center is None
    return 0.5 * function.weight * cp.sum_squares(x)


def domain_in_cvxpy(domain, x):
    if isinstance(domain, tb.Space):
        return []
    if isinstance(domain, tb.Orthant):
        return [x >= 0]
    return [(cp.norm1(x) if isinstance(domain, tb.L1Ball) else cp.norm2(x)) <= domain.radius]


def conic_optima(problem: tb.Problem) -> tuple[float, float]:
    """(f*, g*) by two conic solves: the lower level, then f over the x with the same A x.

    With an l1 norm below they share the slope of the loss too, and with it their signs and zeros.
    """
    (_, loss), (_, penalty) = problem.smooth_parts, problem.penalties
    x = cp.Variable(problem.dimension)
    inside = domain_in_cvxpy(problem.domain, x)
    lower = cp.Problem(cp.Minimize(in_cvxpy(problem.lower, x)), inside)
    lower.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    A, same = loss.matrix.dense(), []
    if isinstance(penalty, tb.L1):
        pull = -loss.gradient(x.value) / penalty.weight
        free = np.abs(pull) > 0.99
        A = A * free
        same = [cp.multiply(pull, x) >= 0, cp.multiply(~free, x) == 0]
    basis = np.linalg.svd(A, full_matrices=False)[2][: np.linalg.matrix_rank(A)]
    same.append(basis @ x == basis @ x.value)
    upper = cp.Problem(cp.Minimize(in_cvxpy(problem.upper, x)), inside + same)
    upper.solve(solver="CLARABEL")
    return float(upper.value), float(lower.value)


# --- every instance ------------------------------------------------------------------------------


def test_names_are_unique_and_the_table_has_a_line_for_each():
    assert len(set(NAMES)) == len(NAMES)
    header, *lines = table().splitlines()
    assert header.split() == ["name", "variables", "ties", "source"]
    assert [line.split()[0] for line in lines] == NAMES
    assert max(map(len, lines)) <= 104
    for line, one in zip(lines, instances(), strict=True):
        ties = "?" if one.dimension is None else str(one.dimension)
        assert line.split()[1:3] == [str(one.variables), ties]
        assert line.endswith(one.source)


@pytest.mark.parametrize("one", instances(), ids=NAMES)
def test_an_instance_keeps_the_word_of_its_line(one, built):
    made = built(one.name)
    assert made.variables == one.variables == made.problem.dimension
    assert made.dimension == one.dimension
    assert made.x0.shape == (one.variables,)
    assert made.problem.domain.contains(made.x0)
    text = str(one)
    assert text.startswith(f"{one.name}: {one.title}\n  source       {one.source}\n")
    assert all(f"{name} = " in text for name in one.parameters)
    assert str(made).startswith(made.label)
    assert "synthetic twin" in made.label or not one.name.startswith("regression")


@pytest.mark.parametrize("name", NAMES)
def test_building_twice_gives_the_same_numbers(name, built):
    first, second = built(name), instance(name)
    np.testing.assert_array_equal(first.x0, second.x0)
    x = np.random.default_rng(0).standard_normal(first.variables)
    for level in ("upper", "lower"):
        one, other = (getattr(made.problem, level) for made in (first, second))
        np.testing.assert_array_equal(one.gradient(x), other.gradient(x))


@pytest.mark.parametrize("name", NAMES)
def test_lipschitz_constants_hold_on_random_pairs_and_are_near_the_largest_eigenvalue(
    name, built, count
):
    made, rng = built(name), np.random.default_rng(1)
    for h, claimed in (
        (made.problem.upper, made.upper_lipschitz),
        (made.problem.lower, made.lower_lipschitz),
    ):
        for _ in range(count(5, 200)):
            x, y = rng.standard_normal((2, made.variables))
            rise = np.linalg.norm(h.gradient(x) - h.gradient(y))
            assert rise <= claimed * np.linalg.norm(x - y) * (1 + 1e-12)
        if h.matrix is not None:
            top = np.linalg.norm(h.matrix.dense(), 2)
            if not isinstance(h, tb.Quadratic):
                top = top**2 * h.scale * (0.25 if isinstance(h, tb.Logistic) else 1.0)
            assert top <= claimed * (1 + 1e-12)
            assert claimed <= 1.04 * top


@pytest.mark.parametrize("name", NAMES)
def test_a_claimed_solution_lies_in_the_domain_and_has_the_claimed_values(name, built):
    made = built(name)
    if made.solution is not None:
        f, g = (h.value(made.solution) for h in (made.problem.upper, made.problem.lower))
        assert made.problem.domain.contains(made.solution, 1e-12)
        assert f == pytest.approx(made.upper_optimum, rel=1e-12)
        assert g == pytest.approx(made.lower_optimum, rel=1e-12, abs=1e-28 * made.lower_lipschitz)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("toy", {}),
        ("toy", {"center": (3.0, -1.0)}),  # at one end of the chord
        ("toy", {"center": (-2.0, 5.0), "stretch": 0.1}),  # at the other
        ("inverse", {"n": 1}),
        ("inverse", {"n": 3}),
        ("inverse", {}),
        ("hard", {"steps": 4}),
        ("hard", {"steps": 3, "ties": 0}),
        ("hard", {"steps": 5, "ties": 3, "smoothness": 100.0}),
        ("logistic", {}),
        ("sparse-logistic-large-ball", {}),
        ("basis-pursuit", {}),
        ("basis-pursuit", {"rows": 1, "variables": 2, "nonzeros": 1}),
        ("basis-pursuit", {"rows": 30, "variables": 31, "nonzeros": 12, "seed": 3}),
        ("group-pursuit", {"rows": 40, "groups": 30, "size": 3, "active": 4, "seed": 1}),
        ("group-pursuit", {"rows": 5, "groups": 2, "size": 5, "active": 1}),
        ("lasso-duplicates", {}),
        ("lasso-duplicates", {"copies": 4, "weight": 2.0, "seed": 2}),
        ("lasso-duplicates", {"rows": 1, "features": 1, "nonzeros": 1, "validation": 2}),
    ],
)
def test_a_claimed_optimum_is_the_one_a_conic_solver_finds(name, parameters):
    made = instance(name, **parameters)
    f_star, g_star = conic_optima(made.problem)
    assert made.upper_optimum == pytest.approx(f_star, rel=1e-5, abs=1e-6)
    assert made.lower_optimum == pytest.approx(g_star, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    "parameters", [{}, {"n": 3, "rows": 2, "center": -4.0}, {"n": 2, "rows": 2}]
)
def test_the_chain_is_tied_to_one_and_the_rest_to_the_center(parameters):
    made = instance("nemirovsky", **parameters)
    x = cp.Variable(made.variables)
    A, b = made.problem.lower.matrix.dense(), made.problem.lower.b
    center = {"center": 50.0, **parameters}["center"]
    best = cp.Problem(cp.Minimize(cp.norm1(x - center)), [A @ x == b]).solve(solver="CLARABEL")
    assert made.upper_optimum == pytest.approx(best, rel=1e-7)
    largest = np.linalg.norm(A, 2) ** 2
    assert largest == pytest.approx(4 * np.cos(np.pi / (2 * len(A) + 1)) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_squared_hinge_is_flat_around_its_solution(seed):
    made = instance("squared-hinge", seed=seed)
    A, c = made.problem.lower.matrix.dense(), made.problem.upper.center
    x = cp.Variable(made.variables)
    cp.Problem(cp.Minimize(cp.sum_squares(x - c)), [A @ x >= 1]).solve(solver="CLARABEL")
    np.testing.assert_allclose(x.value, made.solution, atol=1e-6)
    assert np.count_nonzero(A @ made.solution == 1.0) == 8
    assert np.all(A @ (1.1 * made.solution) > 1.0)  # inside, and g is 0 all around
    assert made.problem.lower.value(1.1 * made.solution) == 0.0
    assert 1.1 * np.linalg.norm(made.solution) < made.problem.domain.radius


def test_the_example_of_cg_bio_by_two_conic_programs():
    made, x = instance("cg-bio-toy"), cp.Variable(2)
    inside = [x >= 0, x[0] + x[1] <= 1, 4 * x[0] + 6 * x[1] <= 5]
    assert cp.Problem(cp.Maximize(cp.sum(x)), inside).solve() == pytest.approx(1.0)
    upper = 0.5 * cp.square(x[0]) - 0.5 * x[0] + 0.1 * x[1]
    best = cp.Problem(cp.Minimize(upper), [*inside, cp.sum(x) == 1]).solve(solver="CLARABEL")
    assert made.upper_optimum == pytest.approx(best, abs=1e-8)
    for method in ("exact", "conic", "auto"):
        assert tb.solve(made.problem, method).x == pytest.approx([0.6, 0.4], abs=1e-7)


def test_duffins_gap_gets_no_false_word():
    made = instance("duffin")
    f, g = made.problem.upper, made.problem.lower
    for s in (1.0, 10.0, 1e4):
        assert f.value(np.array([s, 1.0])) == 0.0
        assert f.value(np.array([s, 0.0])) == made.upper_optimum  # so x* is not unique
        assert 0.0 < g.value(np.array([s, 1.0])) < 1.0 / (2.0 * s)
    assert made.solution is None
    result = tb.solve(made.problem, "adaptive", x0=made.x0, max_iter=2000)
    assert result.status == "max_iter"
    assert result.upper_optimum[0] <= 1.0 <= result.upper_optimum[1]
    assert result.lower_optimum[0] <= 0.0 <= result.lower_optimum[1]


def test_an_unknown_name_or_parameter_gets_a_sentence():
    with pytest.raises(ValueError, match=r"^instance: unknown name 'nope', known are toy, inverse"):
        instance("nope")
    with pytest.raises(ValueError, match=r"'breast-cancr' \(did you mean 'breast-cancer'\?\)$"):
        instance("breast-cancr")
    with pytest.raises(TypeError, match=r"^inverse: unknown parameter 'm'; known are n, seed$"):
        instance("inverse", m=3)
    with pytest.raises(TypeError, match=r"^phillips: unknown parameter 'equation'; known are n, "):
        instance("phillips", equation=3)


BAD = [
    ("inverse", {"n": 0}, "inverse: n must be a whole number >= 1, got 0"),
    ("inverse", {"n": 3.0}, "inverse: n must be a whole number >= 1, got float"),
    ("inverse", {"seed": -1}, "inverse: seed must be a whole number >= 0, got -1"),
    ("toy", {"center": [1.0]}, "toy: center must have one entry per coordinate (2), got 1"),
    ("toy", {"stretch": 0.0}, "toy: stretch must be a positive finite number, got 0.0"),
    ("random-inverse", {"rank": 41}, "random-inverse: rank must be at most 40, got 41"),
    ("random-inverse", {"rank": 0}, "random-inverse: rank must be a whole number >= 1, got 0"),
    ("random-inverse", {"condition": 0.5}, "random-inverse: condition must be a finite number >= 1, got 0.5"),  # noqa: E501
    ("random-inverse", {"noise": -1.0}, "random-inverse: noise must be a non-negative finite number, got -1.0"),  # noqa: E501
    ("random-inverse", {"domain": "ball"}, "random-inverse: domain must be Space(), Ball(radius) or Orthant(), got str"),  # noqa: E501
    ("random-inverse", {"domain": tb.Ball(1.0, [0.0] * 60)}, "random-inverse: domain must be a ball around the origin, got another center"),  # noqa: E501
    ("phillips", {"n": 1}, "phillips: n must be a whole number >= 2, got 1"),
    ("baart", {"rows": 0}, "baart: rows must be a whole number >= 1, got 0"),
    ("foxgood", {"smooth": 1}, "foxgood: smooth must be True or False, got 1"),
    ("foxgood", {"domain": tb.Ball()}, "foxgood: domain must be Space() or Orthant(), got Ball"),
    ("regression", {"train": 75}, "regression: train must be a share between 0 and 1, got 75"),
    ("regression", {"train": 1e-9}, "regression: train must be a share between 0 and 1, got 1e-09"),
    ("regression", {"train": "all"}, "regression: train must be a share between 0 and 1, got str"),
    ("regression", {"radius": -1}, "regression: radius must be a positive finite number, got -1"),
    ("regression", {"file": 3}, "regression: file must be a file name, got int"),
    ("inverse", {"n": None}, "inverse: n must be a whole number >= 1, got NoneType"),
    ("breast-cancer", {"train": 0}, "breast_cancer: train must be between 1 and 568, got 0"),
    ("breast-cancer", {"train": 569}, "breast_cancer: train must be between 1 and 568, got 569"),
    ("breast-cancer", {"train": -1}, "breast_cancer: train must be between 1 and 568, got -1"),
    ("breast-cancer", {"train": 50.0}, "breast_cancer: train must be a whole number, got float"),
    ("diabetes", {"train": 442}, "diabetes: train must be between 1 and 441, got 442"),
    ("digits", {"radius": 0.0}, "digits: radius must be a positive finite number, got 0.0"),
    ("logistic", {"radius": 0}, "logistic: radius must be a positive finite number, got 0"),
    ("sparse-logistic", {"radius": -2}, "sparse-logistic: radius must be a positive finite number, got -2"),  # noqa: E501
    ("hard", {"steps": 0}, "hard: steps must be a whole number >= 1, got 0"),
    ("hard", {"ties": -1}, "hard: ties must be a whole number >= 0, got -1"),
    ("basis-pursuit", {"rows": 0}, "basis-pursuit: rows must be a whole number >= 1, got 0"),
    ("basis-pursuit", {"rows": 2.0}, "basis-pursuit: rows must be a whole number >= 1, got float"),
    ("basis-pursuit", {"rows": 1000}, "basis-pursuit: rows must be fewer than the variables (1000), got 1000"),  # noqa: E501
    ("basis-pursuit", {"variables": 1}, "basis-pursuit: variables must be a whole number >= 2, got 1"),  # noqa: E501
    ("basis-pursuit", {"nonzeros": 0}, "basis-pursuit: nonzeros must be a whole number >= 1, got 0"),  # noqa: E501
    ("basis-pursuit", {"nonzeros": 201}, "basis-pursuit: nonzeros must be at most 200, got 201"),
    ("basis-pursuit", {"rows": 10, "variables": 100, "nonzeros": 8}, "basis-pursuit: nonzeros must be small enough for a dual certificate of the answer, got 8 with 10 x 100"),  # noqa: E501
    ("basis-pursuit", {"seed": -1}, "basis-pursuit: seed must be a whole number >= 0, got -1"),
    ("group-pursuit", {"size": 0}, "group-pursuit: size must be a whole number >= 1, got 0"),
    ("group-pursuit", {"active": 21}, "group-pursuit: active must be at most 20, got 21"),
    ("group-pursuit", {"groups": 1}, "group-pursuit: rows must be fewer than the variables (5), got 100"),  # noqa: E501
    ("lasso-duplicates", {"copies": 1}, "lasso-duplicates: copies must be a whole number >= 2, got 1"),  # noqa: E501
    ("lasso-duplicates", {"nonzeros": 81}, "lasso-duplicates: validation must be a whole number >= 82, got 60"),  # noqa: E501
    ("lasso-duplicates", {"nonzeros": 50, "features": 20}, "lasso-duplicates: nonzeros must be at most 20, got 50"),  # noqa: E501
    ("lasso-duplicates", {"validation": 12}, "lasso-duplicates: validation must be a whole number >= 13, got 12"),  # noqa: E501
    ("lasso-duplicates", {"weight": 0.0}, "lasso-duplicates: weight must be a positive finite number, got 0.0"),  # noqa: E501
    ("lasso-duplicates", {"features": 0}, "lasso-duplicates: features must be a whole number >= 1, got 0"),  # noqa: E501
    ("hard", {"smoothness": 0.0}, "hard: smoothness must be a positive finite number, got 0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "sentence"), BAD)
def test_a_bad_parameter_gets_one_sentence(name, parameters, sentence):
    with pytest.raises((ValueError, TypeError)) as error:
        instance(name, **parameters)
    assert str(error.value) == sentence


# --- inverse problems ----------------------------------------------------------------------------


def onto_simplex(x):
    """The projection onto the simplex, by its formula with sorted entries."""
    falling = np.sort(x)[::-1]
    shifts = (np.cumsum(falling) - 1.0) / np.arange(1, len(x) + 1)
    return np.maximum(x - shifts[falling > shifts][-1], 0.0)


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_the_error_bound_of_the_inverse_problem_holds_and_its_modulus_is_the_best(n, count):
    problem, rng = instance("inverse", n=n).problem, np.random.default_rng(n)
    bound = problem.error_bound
    corner = np.eye(n)[0] * 3.0
    smallest = np.inf
    for i in range(count(200, 20_000)):
        x = rng.exponential(rng.choice([1e-3, 1.0 / n, 1.0]), n) * (rng.random(n) < rng.random())
        x = corner if i == 0 else x
        distance = np.linalg.norm(x - onto_simplex(x))
        ratio = problem.lower.value(x) / (0.5 * distance**2) if distance > 0 else np.inf
        smallest = min(smallest, ratio)
    assert smallest == pytest.approx(bound.modulus, rel=1e-12)
    assert bound.gradient_bound == pytest.approx(np.linalg.norm(np.full(n, 1.0 / n)), rel=1e-12)


def test_the_start_of_the_inverse_problem_depends_on_the_seed_and_is_not_negative():
    starts = [instance("inverse", n=5, seed=seed).x0 for seed in (0, 1)]
    assert np.all(np.stack(starts) >= 0.0)
    assert not np.array_equal(*starts)


SHAPES = [(60, 40, 20), (5, 9, 3), (9, 5, 5), (1, 1, 1), (7, 1, 1), (30, 30, 29)]


@pytest.mark.parametrize(("n", "rows", "rank"), SHAPES)
@pytest.mark.parametrize("domain", [tb.Space(), tb.Orthant(), tb.Ball(1e-3), tb.Ball(1e3)])
def test_random_inverse_problems_are_what_they_say(n, rows, rank, domain, count):
    for seed in range(count(2, 20)):
        shape = {"n": n, "rows": rows, "rank": rank, "seed": seed, "domain": domain}
        made = instance("random-inverse", condition=50.0, **shape)
        A, b = made.problem.lower.matrix.dense(), made.problem.lower.b
        values = np.linalg.svd(A, compute_uv=False)
        assert int(np.count_nonzero(values > 1e-9 * values[0])) == rank
        assert 0.49 <= made.lower_lipschitz <= 2.01
        spectrum = np.linalg.eigvalsh(made.problem.upper.matrix.dense())
        assert spectrum[-1] == pytest.approx(1.0, rel=1e-12)
        assert spectrum[-1] / spectrum[0] == pytest.approx(50.0 if n > 1 else 1.0, rel=1e-9)
        assert made.lower_optimum == made.problem.lower.value(made.truth) == 0.0  # no rounding
        # A point inside the domain with A x = b: the ties are as many as on R^n.
        assert np.all(made.truth > 0.0)
        if isinstance(domain, tb.Ball):
            assert np.linalg.norm(made.truth) <= 0.5 * domain.radius
        assert made.dimension == n - rank
        noisy = instance("random-inverse", noise=0.25, **shape)
        error = np.linalg.norm(noisy.problem.lower.b - b) / np.linalg.norm(b)
        assert error == pytest.approx(0.25, rel=1e-12)
        assert noisy.lower_optimum is None
        assert noisy.dimension == n - rank or not isinstance(domain, tb.Space)


def test_toy_runs_to_its_answer():
    made = instance("toy")
    result = tb.solve(made.problem, x0=made.x0, max_iter=5000)
    assert np.linalg.norm(result.x - made.solution) <= 1e-2
    low, high = result.upper_optimum
    assert low <= made.upper_optimum <= high


# --- integral equations --------------------------------------------------------------------------

EQUATIONS = [hansen.PHILLIPS, hansen.BAART, hansen.FOXGOOD]


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: e.name)
def test_the_known_function_solves_the_integral_equation(equation, count):
    rng = np.random.default_rng(0)
    start, end = equation.t
    for s in rng.uniform(*equation.s, count(20, 500)):
        bends = [t for t in (-3.0, 3.0, s - 3.0, s + 3.0) if start < t < end]
        integral, _ = quad(
            lambda t, s=s: float(equation.kernel(s, t) * equation.solution(np.array(t))),
            start,
            end,
            points=bends or None,
            epsabs=1e-12,
            epsrel=1e-12,
        )
        assert integral == pytest.approx(float(equation.right(np.array(s))), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: e.name)
def test_the_discretisation_has_the_order_of_the_midpoint_rule_and_the_norms_of_the_functions(
    equation,
):
    errors = []
    for n in (50, 100, 200, 400):
        A, x, b = equation.discretised(n, n // 2)
        assert A.shape == (n // 2, n)
        errors.append(np.linalg.norm(A @ x - b) / np.linalg.norm(b))
        length = np.sqrt(quad(lambda t: float(equation.solution(np.array(t))) ** 2, *equation.t)[0])
        assert np.linalg.norm(x) == pytest.approx(length, rel=2.0 / n**2)
    assert errors[0] <= 2e-3
    assert all(after <= before / 3.5 for before, after in pairwise(errors))


def test_the_equations_are_as_ill_posed_as_they_say():
    def spectrum(equation):
        return np.linalg.svd(equation.discretised(100, 100)[0], compute_uv=False)

    phillips, baart, foxgood = map(spectrum, EQUATIONS)
    assert 1e-8 < phillips[-1] / phillips[0] < 1e-4  # a rank that is determined
    for values in (baart, foxgood):
        assert values[-1] / values[0] < 1e-15
        ratios = values[:-1] / values[1:]
        assert np.count_nonzero(values > 1e-13 * values[0]) <= 30
        assert ratios[values[1:] > 1e-14 * values[0]].max() < 1e3  # no gap: no rank
    few = np.linalg.svd(hansen.PHILLIPS.discretised(100, 25)[0], compute_uv=False)
    assert few[-1] > 1e-5 * few[0]  # full row rank: 75 dimensions of ties
    A = hansen.PHILLIPS.discretised(60, 60)[0]
    np.testing.assert_allclose(A, A.T, atol=1e-15)


@pytest.mark.parametrize("name", ["phillips", "baart", "foxgood"])
def test_ill_posed_problems_have_noise_a_smooth_upper_level_and_an_orthant_where_asked(name):
    plain = instance(name, n=30)
    A, b = plain.problem.lower.matrix.dense(), plain.problem.lower.b
    np.testing.assert_array_equal(b, A @ plain.truth)
    assert plain.problem.lower.value(plain.truth) == plain.lower_optimum == 0.0
    asked = instance(name, n=30, noise=0.01, smooth=True, domain=tb.Orthant(), seed=3)
    error = np.linalg.norm(asked.problem.lower.b - b) / np.linalg.norm(b)
    assert error == pytest.approx(0.01, rel=1e-9)
    assert asked.lower_optimum is None
    assert np.all(plain.truth >= 0.0)
    x = np.random.default_rng(0).standard_normal(30)
    assert asked.problem.upper.value(x) == pytest.approx(0.5 * np.sum(np.diff(x) ** 2))


# --- the hard instance ---------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "ties"), [(1, 0), (1, 1), (6, 0), (6, 2), (40, 1)])
def test_each_gradient_opens_at_most_one_entry_of_the_chain(steps, ties):
    problem = instance("hard", steps=steps, ties=ties).problem
    rng = np.random.default_rng(0)
    for opened in range(2 * steps):
        x = np.zeros(2 * steps + ties)
        x[:opened] = rng.standard_normal(opened)
        x[2 * steps :] = rng.standard_normal(ties)
        slope = problem.lower.gradient(x)
        assert np.all(slope[opened + 1 :] == 0.0)
        assert opened or slope[0] != 0.0
        if opened <= steps:
            assert np.all(problem.upper.gradient(x)[: 2 * steps] == 0.0)


@pytest.mark.parametrize(("steps", "ties"), [(1, 1), (5, 0), (30, 3)])
def test_no_point_with_a_closed_second_half_is_near_the_optimal_value(steps, ties, count):
    """f* = 2, and on the ball with v = 0 f lies between 0 and 1: the ends, and points between."""
    made, rng = instance("hard", steps=steps, ties=ties), np.random.default_rng(0)
    c = made.solution[2 * steps :]
    for i in range(count(50, 5000)):
        x = np.zeros(made.variables)
        x[:steps] = rng.standard_normal(steps) * (i > 1)
        x[2 * steps :] = [-3.0 * c, c, rng.standard_normal(ties)][min(i, 2)]
        value = made.problem.upper.value(made.problem.domain.project(x))
        assert -1e-12 <= value <= 1.0 + 1e-12
    assert made.upper_optimum == 2.0


def test_constants_of_the_hard_instance_do_not_depend_on_the_steps():
    for steps in (1, 10, 200):
        made = instance("hard", steps=steps)
        assert (made.upper_lipschitz, made.lower_lipschitz, made.diameter) == (1.0, 4.0, 6.0)
        top = np.linalg.norm(made.problem.lower.matrix.dense(), 2) ** 2
        assert top < 4.0
        assert made.problem.lower.value(made.x0) == pytest.approx(2.0 / steps, rel=1e-12)
        assert np.linalg.norm(made.solution) <= 3.0 * (1 + 1e-12)


@pytest.mark.parametrize("gamma", [1.0, 1e-2, None])
@pytest.mark.parametrize("ties", [0, 2])
def test_agm_bio_stays_one_away_from_the_optimal_value_for_all_the_steps(gamma, ties, count):
    steps = count(40, 400)
    made = instance("hard", steps=steps, ties=ties)
    seen = []

    def look(now):
        assert np.all(now.x[now.nit : 2 * steps] == 0.0)
        seen.append(abs(now.upper_value - made.upper_optimum))

    tb.solve(made.problem, tb.AGMBiO(gamma), max_iter=steps, rtol=0.0, callback=look)
    assert len(seen) == steps + 1
    assert min(seen) >= 1.0


# --- the paper's regression ----------------------------------------------------------------------


def test_the_twin_has_the_shape_and_the_scale_of_the_data(count):
    published = 6667.0  # L_g of the paper, appendix
    for seed in range(count(2, 10)):
        made = instance("regression", seed=seed)
        assert made.problem.lower.matrix.shape == (801, 730)
        assert made.problem.upper.matrix.shape == (267, 730)
        assert made.lower_lipschitz == pytest.approx(published, rel=0.15)
        for level in (made.problem.upper, made.problem.lower):
            assert level.matrix.dense().min() >= 0.0
            assert level.matrix.dense().max() <= 1.0
        assert "synthetic twin" in made.label


def test_the_twin_has_heavy_tails_a_week_spikes_and_whole_counts():
    visits = wikipedia.twin()
    assert visits.shape == (PAGES, DAYS)
    np.testing.assert_array_equal(visits, np.round(visits))
    assert visits.min() >= 0.0
    pages = np.sort(visits.mean(axis=1))[::-1]
    assert pages[0] > 5.0 * np.median(pages)
    days = np.median(visits / visits.mean(axis=1, keepdims=True), axis=0)
    weekend = np.arange(DAYS) % 7 >= 5
    assert days[weekend].mean() == pytest.approx(2.0 / 3.0 * days[~weekend].mean(), rel=0.05)
    usual = np.median(visits, axis=1, keepdims=True)
    assert 2e-4 < np.mean(visits > 5.0 * usual) < 4e-3
    assert (visits / usual).max() > 20.0


def test_another_seed_draws_another_column_and_split_of_the_same_twin():
    first, second = (instance("regression", seed=seed).problem.lower for seed in (0, 1))
    assert not np.array_equal(first.b, second.b)


def test_constant_columns_become_zero_and_divide_by_nothing():
    visits = np.array([[1.0, 7.0, 0.0], [3.0, 7.0, 0.0], [2.0, 7.0, 0.0]])
    scaled = wikipedia._to_unit_interval(visits)
    np.testing.assert_array_equal(scaled, [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("regression")])
def test_the_ties_of_the_regression_are_those_of_its_least_squares_solutions(name, built):
    """Full rank; n - rows if the shortest solution lies inside the ball, none if outside."""
    made = built(name)
    A, b = made.problem.lower.matrix.dense(), made.problem.lower.b
    shortest, _, rank, values = np.linalg.lstsq(A, b, rcond=None)
    assert rank == min(A.shape)
    assert values[-1] > 1e-6 * values[0]
    inside = np.linalg.norm(shortest) < made.problem.domain.radius * 0.999
    outside = np.linalg.norm(shortest) > made.problem.domain.radius * 1.001
    assert inside or outside
    assert made.dimension == (made.variables - rank if inside else 0)


@pytest.fixture(scope="module")
def data():
    """What json.load gives for a file of the right shape, with small made-up counts."""
    rng = np.random.default_rng(0)
    content = {"edges": [[0, 1]], "weights": [1], "node_ids": {"page": 0}, "time_periods": DAYS}
    for day in range(DAYS):
        content[str(day)] = {"index": day, "y": rng.integers(0, 50, PAGES).tolist()}
    return content


def written(folder, content):
    path = folder / "wikivital_mathematics.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_file_is_read_into_a_row_per_page_and_a_column_per_day(data, tmp_path):
    path = written(tmp_path, data)
    visits = wikipedia.read_visits(path)
    assert visits.shape == (PAGES, DAYS)
    for day in (0, 1, 10, 730):
        np.testing.assert_array_equal(visits[:, day], data[str(day)]["y"])
    made = instance("regression", file=str(path))
    assert made.label == "Wikipedia Math Essential"
    assert made.problem.lower.matrix.shape == (801, 730)
    assert made.problem.lower.matrix.dense().max() == 1.0


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: "{not json", "{path} is not a JSON file"),
        (lambda d: "[" * 100_000, "{path} is not a JSON file"),
        (lambda d: [1, 2], "{path} must hold a JSON object, got list"),
        (
            lambda d: {k: v for k, v in d.items() if k != "weights"},
            "{path} must have the keys edges, weights, node_ids, time_periods and '0' to '730', "
            "but 'weights' is missing",
        ),
        (
            lambda d: {k: v for k, v in d.items() if k not in ("729", "730")},
            "{path} must have the keys edges, weights, node_ids, time_periods and '0' to '730', "
            "but '729' and 1 more are missing",
        ),
        (lambda d: d | {"731": d["0"]}, "{path} must hold 731 days, but it has a key '731'"),
        (lambda d: d | {"5": [1, 2]}, "{path}: day 5 must hold a list 'y', got list"),
        (
            lambda d: d | {"5": {"y": d["5"]["y"][1:]}},
            "{path}: day 5 must have 1068 counts, got 1067",
        ),
        (lambda d: d | {"5": {"y": ["1"] * PAGES}}, "{path}: day 5 must hold numbers only"),
        (lambda d: d | {"5": {"y": [True] * PAGES}}, "{path}: day 5 must hold numbers only"),
        (
            lambda d: d | {"5": {"y": [float("nan")] * PAGES}},
            "{path}: day 5 must be finite, got NaN or infinite counts",
        ),
        (
            lambda d: d | {"5": {"y": [10**400] * PAGES}},
            "{path}: day 5 must be finite, got NaN or infinite counts",
        ),
    ],
)
def test_a_file_of_another_shape_gets_one_sentence(data, tmp_path, change, sentence):
    path = written(tmp_path, change(data))
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the sentence is compared below)
        wikipedia.read_visits(path)
    assert str(error.value) == sentence.format(path=path)


def test_a_file_that_is_not_there_or_a_folder_gets_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"nothing\.json cannot be read \(No such file"):
        wikipedia.read_visits(tmp_path / "nothing.json")
    with pytest.raises(ValueError, match=r"cannot be read \(Is a directory\)$"):
        wikipedia.read_visits(tmp_path)


# --- scikit-learn's data -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["breast-cancer", "diabetes", "digits"])
def test_over_parameterised_regression_has_ties_where_the_ball_holds_a_perfect_fit(name, count):
    for seed in range(count(2, 20)):
        made = instance(name, seed=seed)
        A, b = made.problem.lower.matrix.dense(), made.problem.lower.b
        shortest, _, rank, _ = np.linalg.lstsq(A, b, rcond=None)
        inside = np.linalg.norm(shortest) < made.problem.domain.radius
        assert inside or name == "breast-cancer"  # whose ball is tight: some draws do not fit
        assert made.dimension == (made.variables - rank if inside else 0)
        assert rank == A.shape[0]
        np.testing.assert_allclose(np.linalg.norm(A, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("radius", [0.1, 1.0, 8.0])
def test_in_a_ball_that_binds_least_squares_has_an_error_bound_of_order_two(radius, count):
    """g(x) - g* >= lambda/2 |x - x*|² on the ball, grad g(x*) = -lambda x*; x* from one root."""
    made, rng = instance("diabetes", radius=radius), np.random.default_rng(0)
    g, n = made.problem.lower, made.variables
    u, s, vt = np.linalg.svd(g.matrix.dense(), full_matrices=False)
    image = s * (u.T @ g.b)

    def at(shift):  # the minimiser of ½|Ax - b|² + shift/2 |x|²
        return vt.T @ (image / (s**2 + shift))

    shift = brentq(lambda t: np.linalg.norm(at(t)) - radius, 0.0, 1e6, xtol=1e-15, rtol=1e-14)
    x_star, modulus = at(shift), shift * g.scale
    np.testing.assert_allclose(g.gradient(x_star), -modulus * x_star, atol=1e-12 * modulus)
    for size in (1e-3, 1e-1, 1.0, 10.0):
        for _ in range(count(20, 1000)):
            x = made.problem.domain.project(x_star + size * radius * rng.standard_normal(n))
            rise, distance = g.value(x) - g.value(x_star), np.linalg.norm(x - x_star)
            assert rise >= 0.5 * modulus * distance**2 - 1e-12 * g.value(x_star)
    assert (made.order, made.dimension) == (2.0, 0)


def test_a_ball_that_is_too_small_leaves_a_single_minimiser():
    assert instance("diabetes", radius=1.0).dimension == 0


def test_pixels_that_never_change_are_columns_of_zeros():
    upper = instance("digits").problem.upper.matrix.dense()
    assert np.all(np.isfinite(upper))
    assert [int(i) for i in np.flatnonzero(~upper.any(axis=0))] == [0, 32, 39]


def test_breast_cancer_is_the_problem_of_its_instance():
    x = np.random.default_rng(0).standard_normal(495)
    for level in ("upper", "lower"):
        plain, made = (
            getattr(p, level) for p in (breast_cancer(), instance("breast-cancer").problem)
        )
        assert plain.value(x) == made.value(x)


@pytest.mark.parametrize("name", ["breast-cancer", "diabetes", "digits", "logistic"])
def test_without_scikit_learn_the_install_line_is_said(name, monkeypatch):
    for module in [m for m in sys.modules if m.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"data needs scikit-learn: pip install scikit-learn"):
        instance(name)


def test_the_ten_pairs_of_columns_have_rank_eleven_and_labels_that_no_plane_separates():
    A, y = datasets._low_or_high()
    assert A.shape == (569, 20)
    assert np.linalg.matrix_rank(A) == 11
    np.testing.assert_array_equal(A[:, :10] + A[:, 10:], 1.0)
    # An interior minimiser proves that no direction separates: the slope at p is rounding.
    p = datasets._shortest_minimiser(A, y)
    weight = 1.0 / (1.0 + np.exp(y * (A @ p)))
    assert np.linalg.norm(A.T @ (y * weight)) <= 1e-11 * len(y)
    basis = np.linalg.svd(A, full_matrices=False)[2][:11]
    assert np.linalg.norm(p - basis.T @ (basis @ p)) <= 1e-13 * np.linalg.norm(p)  # the shortest
    assert np.linalg.norm(p) == pytest.approx(3.18, abs=5e-3)


def test_a_round_ball_that_binds_has_one_minimiser_on_its_sphere():
    made = instance("logistic-small-ball")
    A, y = made.problem.lower.matrix.dense(), made.problem.lower.y
    x = cp.Variable(20)
    lower = cp.Minimize(in_cvxpy(made.problem.lower, x))
    cp.Problem(lower, [cp.norm2(x) <= 2.0]).solve(solver="CLARABEL")
    slope = -A.T @ (y / (1.0 + np.exp(y * (A @ x.value)))) / len(y)
    # The slope at the minimiser is not zero, so that it is the only one (a ball has no flat side).
    assert np.linalg.norm(slope) > 1e-3
    assert x.value @ slope == pytest.approx(-2.0 * np.linalg.norm(slope), rel=1e-6)
    assert made.problem.upper.value(x.value) == pytest.approx(made.upper_optimum, rel=1e-6)
    assert made.dimension == 0


def test_the_l1_ball_binds_below_the_least_l1_norm_of_a_minimiser_on_the_whole_space():
    A, y = datasets._low_or_high()
    basis = np.linalg.svd(A, full_matrices=False)[2][:11]
    image = basis @ datasets._shortest_minimiser(A, y)
    least = linprog(np.ones(40), A_eq=np.hstack([basis, -basis]), b_eq=image)  # x = u - v, >= 0
    assert least.fun == pytest.approx(11.22, abs=5e-3)


def test_an_l1_ball_that_binds_keeps_eight_dimensions_of_ties():
    """The minimisers are a face: x on E with the signs of -slope, the same A x, the same norm."""
    made = instance("sparse-logistic")
    A, y = made.problem.lower.matrix.dense(), made.problem.lower.y
    x = cp.Variable(20)
    inside = [cp.norm1(x) <= made.problem.domain.radius]
    cp.Problem(cp.Minimize(in_cvxpy(made.problem.lower, x)), inside).solve(solver="CLARABEL")
    slope = -A.T @ (y / (1.0 + np.exp(y * (A @ x.value))))
    steepest = np.abs(slope) / np.abs(slope).max()
    E = steepest > 0.99
    assert steepest[E].min() > 0.9999
    assert steepest[~E].max() < 0.8
    signs = -np.sign(slope[E])
    face = np.vstack([A[:, E], signs[None]])
    # A point with all entries of E away from zero: the face's inside, by a linear programme.
    z, margin = cp.Variable(int(E.sum())), cp.Variable()
    fixed = [face @ z == face @ x.value[E], cp.multiply(signs, z) >= margin]
    cp.Problem(cp.Maximize(margin), fixed).solve(solver="CLARABEL")
    assert margin.value > 1e-3
    assert int(E.sum()) - np.linalg.matrix_rank(face, tol=1e-8) == 8


# --- sparse problems -----------------------------------------------------------------------------

PURSUITS = [(40, 400, 4), (200, 1000, 20), (1, 2, 1), (1, 9, 1), (2, 3, 1), (20, 21, 8)]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("rows", "variables", "nonzeros"), PURSUITS)
def test_the_planted_vector_of_basis_pursuit_has_a_dual_certificate(
    rows, variables, nonzeros, count
):
    """By a linear program of its own: the smallest |A'y| off the support with A_S'y = sign(x*)."""
    for seed in range(count(1, 5)):
        shape = {"rows": rows, "variables": variables, "nonzeros": nonzeros}
        made = instance("basis-pursuit", **shape, seed=seed)
        A, x = made.problem.lower.matrix.dense(), made.solution
        used = x != 0.0
        assert np.count_nonzero(used) == nonzeros
        assert np.linalg.matrix_rank(A[:, used]) == nonzeros
        assert made.dimension == variables - np.linalg.matrix_rank(A) == variables - rows
        ones = np.ones((variables - nonzeros, 1))
        found = linprog(
            np.append(np.zeros(rows), 1.0),
            np.block([[A[:, ~used].T, -ones], [-A[:, ~used].T, -ones]]),
            np.zeros(2 * (variables - nonzeros)),
            np.hstack([A[:, used].T, np.zeros((nonzeros, 1))]),
            np.sign(x[used]),
            bounds=(None, None),
        )
        assert found.status == 0
        assert found.fun < 0.95
        y = found.x[:-1]
        assert y @ made.problem.lower.b == pytest.approx(made.upper_optimum, rel=1e-7)
        # b, f* and g* are without rounding, whatever the order of the sums
        assert made.upper_optimum == float(np.sum(np.abs(x)))
        np.testing.assert_array_equal(made.problem.lower.b, A[:, ::-1] @ x[::-1])
        assert made.problem.lower.value(x) == 0.0


def test_sparse_problems_depend_on_the_seed():
    for name in ("basis-pursuit", "group-pursuit", "lasso-duplicates"):
        first, second = (instance(name, seed=seed) for seed in (0, 1))
        assert not np.array_equal(first.solution, second.solution)
        assert first.upper_optimum != second.upper_optimum


def test_the_planted_groups_of_group_pursuit_are_all_or_nothing():
    made = instance("group-pursuit")
    lengths = np.linalg.norm(made.solution.reshape(80, 5), axis=1)
    assert np.count_nonzero(lengths) == 6
    assert made.upper_optimum == pytest.approx(np.sum(lengths), rel=1e-14)
    assert made.problem.upper.value(made.solution) == made.upper_optimum


LASSOS = [
    {},
    {"copies": 3, "rows": 120, "features": 60},
    {"copies": 5, "weight": 1e3},
    {"rows": 1, "features": 1, "nonzeros": 1, "validation": 2},
    {"rows": 4, "features": 9, "nonzeros": 1, "copies": 2, "validation": 2, "weight": 1e-3},
]


@pytest.mark.parametrize("parameters", LASSOS)
def test_the_planted_answer_of_the_lasso_meets_the_conditions_of_both_levels(parameters, count):
    for seed in range(count(3, 50)):
        made = instance("lasso-duplicates", **parameters, seed=seed)
        copies = parameters.get("copies", 2)
        loss, x = made.problem.lower.smooth, made.solution
        A, weight = loss.matrix.dense(), made.problem.lower.penalty.weight
        columns, which = np.unique(A, axis=1, return_inverse=True)
        assert columns.shape[1] == made.variables // copies
        assert np.all(np.bincount(which) == copies)
        # below: A'(b - Ax*) = weight sign(x*) where a copy is in use, and less in size elsewhere
        pull = A.T @ (loss.b - A @ x) / weight
        used = np.unique(which[x != 0.0])
        size = 1.0 + np.linalg.norm(loss.b) * np.linalg.norm(A, 2) / weight
        for feature in used:
            signs = np.sign(x[(which == feature) & (x != 0.0)])
            assert np.all(signs == signs[0])
            np.testing.assert_allclose(pull[which == feature], signs[0], atol=1e-15 * size)
        assert np.all(np.abs(pull[~np.isin(which, used)]) < 0.95)
        assert np.linalg.matrix_rank(columns[:, used]) == len(used)
        assert made.dimension == len(used) * (copies - 1)
        # above: among the copies of a feature, mass lies only where the slope is the smallest
        slope = made.problem.upper.gradient(x)
        B = made.problem.upper.matrix.dense()
        moves = []
        shared = 0
        for feature in used:
            here = np.flatnonzero(which == feature)
            signed = np.sign(np.sum(x[here])) * slope[here]
            busy = x[here] != 0.0
            assert np.ptp(signed[busy]) <= 1e-13
            assert np.all(signed[~busy] >= np.max(signed[busy]) + 0.09)
            shared += np.all(busy)
            moves += [B[:, i] - B[:, here[0]] for i in here[1:]]
        assert shared == (len(used) + 1) // 2
        assert np.linalg.matrix_rank(np.array(moves)) == made.dimension


def test_sharing_a_lasso_solution_in_another_way_keeps_g_and_raises_f(count):
    made, rng = instance("lasso-duplicates"), np.random.default_rng(0)
    A = made.problem.lower.smooth.matrix.dense()
    which = np.unique(A, axis=1, return_inverse=True)[1]
    u = np.bincount(which, made.solution)
    for _ in range(count(100, 10_000)):
        share = rng.exponential(size=made.variables)
        x = share / np.bincount(which, share)[which] * u[which]
        x = made.solution + rng.choice([1e-3, 1.0]) * (x - made.solution)
        assert made.problem.lower.value(x) == pytest.approx(made.lower_optimum, rel=1e-12)
        assert made.problem.upper.value(x) > made.upper_optimum


def test_a_number_of_rows_may_be_a_number_of_numpy():
    assert (
        tb.instance("digits", train=np.int64(40)).label == "digits, odd or even, 40 training rows"
    )
