"""CVXPY's levels: compiled once, the same values, refused by name, variables kept on failure."""

from __future__ import annotations

import gc
import warnings
from fractions import Fraction
from time import perf_counter

import clarabel
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone
from scipy.optimize import lsq_linear

import tiebreak as tb
from tiebreak.conic.chain import solve_chain
from tiebreak.conic.chain_solution import ChainSolution, LevelSolution
from tiebreak.modelling.cvxpy_compile import square_root

RNG = np.random.default_rng(18)
A, B = RNG.normal(size=(3, 6)), RNG.normal(size=3)
M = A.T @ A


def clarabel_cones(program):
    made = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second-order": clarabel.SecondOrderConeT,
    }
    return [
        clarabel.ExponentialConeT() if cone.kind == "exponential" else made[cone.kind](cone.size)
        for cone in program.cones
    ]


def solved_by_clarabel(program, i):
    """Objective i alone, by Clarabel, on the program's set."""
    goal = program.objectives[i]
    F = sp.csc_array(goal.squares)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    found = clarabel.DefaultSolver(
        sp.triu(F.T @ F).tocsc(),
        goal.linear - F.T @ goal.target,
        sp.csc_array(program.rows),
        program.offset,
        clarabel_cones(program),
        settings,
    ).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return np.array(found.x)


def atoms(x):
    """One level of each atom, convex, finite minimum on |x| <= 2, sum(x) == 1."""
    pos = x + 3
    return {
        "sum_squares": cp.sum_squares(A @ x - B),
        "sum_squares and constants": 2 * cp.sum_squares(A @ x - B) + cp.sum(x[:2]) - 7,
        "quad_form": cp.quad_form(x, M) + x[0],
        "quad_form of an affine map": cp.quad_form(A @ x - B, np.diag([1.0, 2.0, 3.0]) + 0.5),
        "norm1": cp.norm1(A @ x - B),
        "norm2": cp.norm(x, 2),
        "norm_inf": cp.norm_inf(x),
        "max": cp.max(A @ x),
        "sum_largest": cp.sum_largest(x, 2),
        "total variation": cp.tv(x),
        "pos": cp.sum(cp.pos(A @ x - B)),
        "logistic": cp.sum(cp.logistic(A @ x)),
        "exp": cp.sum(cp.exp(x)),
        "huber": cp.sum(cp.huber(A @ x - B, 0.3)),
        "log_sum_exp": cp.log_sum_exp(x),
        "quad_over_lin": cp.quad_over_lin(A @ x - 9, 1 + pos[0]),
        "entropy": -cp.sum(cp.entr(pos)),
        "kl_div": cp.sum(cp.kl_div(pos, np.ones(6))),
        "rel_entr": cp.sum(cp.rel_entr(pos, 1.0)),
        "power 3": cp.sum(cp.power(pos, 3)),
        "power 1.5": cp.sum(cp.power(pos, 1.5)),
        "inv_pos": cp.sum(cp.inv_pos(pos)),
        "log": -cp.sum(cp.log(pos)),
        "geo_mean": -cp.geo_mean(pos),
        "sqrt": -cp.sum(cp.sqrt(pos)),
        "pnorm": cp.pnorm(x, 3),
        "linear": x[0] - 2 * x[3] + 1,
    }


ATOMS = list(atoms(cp.Variable(6)))


@pytest.mark.sample(6)
@pytest.mark.filterwarnings("ignore:geo_mean is being approximated")
@pytest.mark.parametrize("name", ATOMS)
def test_every_level_compiles_to_its_own_value(name):
    x = cp.Variable(6)
    levels = [cp.Minimize(atoms(x)[name]), cp.Minimize(cp.sum_squares(x - 0.3) + cp.norm1(x))]
    constraints = [cp.abs(x) <= 2, cp.sum(x) == 1]
    made = tb.from_cvxpy(levels[0], then=levels[1:], constraints=constraints)
    program = made.program()
    for i, level in enumerate(levels):
        best = cp.Problem(level, constraints).solve(
            solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9
        )
        z = solved_by_clarabel(program, i)
        assert program.objectives[i].value(z) == pytest.approx(best, rel=1e-7, abs=1e-7)
        made.assign(z)
        assert level.value == pytest.approx(best, rel=1e-6, abs=1e-6)
        np.testing.assert_array_equal(x.value, z[program.variables])


def test_values_at_the_variables_are_the_users():
    """Squares are squares of x again: no rows are left, and any z has the levels' values."""
    x, y = cp.Variable(6), cp.Variable((2, 3))
    first = cp.Minimize(cp.sum_squares(A @ x - B) + 3 * cp.sum(y) + 5)
    second = cp.Maximize(-cp.quad_form(x, M) - cp.sum_squares(y) + 2)
    made = tb.from_cvxpy(first, then=second)
    program = made.program()
    assert made.signs == (1, -1)
    assert program.rows.shape == (0, 12)
    z = RNG.normal(size=12)
    made.assign(z)
    assert program.objectives[0].value(z) == pytest.approx(first.value, rel=1e-9)
    assert -program.objectives[1].value(z) == pytest.approx(second.value, rel=1e-9)
    assert program.variables.size == 12


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ({"nonneg": True}, 9),
        ({"pos": True}, 9),
        ({"nonpos": True}, 9),
        ({"symmetric": True}, 6),
        ({"diag": True}, 3),
        ({"bounds": [0.1, 0.2]}, 9),
    ],
)
def test_attributes_of_variables(attributes, size):
    C = RNG.normal(size=(3, 3))
    X = cp.Variable((3, 3), **attributes)
    level = cp.Minimize(cp.sum_squares(X - C))
    made = tb.from_cvxpy(level, then=cp.Minimize(cp.norm1(X)), radius=4.0)
    program = made.program()
    assert program.variables.size == size
    assert np.count_nonzero(np.isfinite(program.reach)) == size
    best = cp.Problem(level).solve(solver="CLARABEL")
    made.assign(solved_by_clarabel(program, 0))
    assert level.value == pytest.approx(best, abs=1e-6)


def test_square_root_of_a_form_without_full_rank():
    factor = RNG.normal(size=(4, 9))
    block = factor.T @ factor
    P = sp.block_diag([np.zeros((2, 2)), block, np.diag([4.0, 0.0, 9.0])]).tocsc()
    F = square_root(P).factor
    assert F.shape == (4 + 2, 14)
    np.testing.assert_allclose((F.T @ F).toarray(), P.toarray(), atol=1e-12 * np.max(block))
    assert square_root(sp.csc_array((3, 3))).factor.shape == (0, 3)


@pytest.mark.parametrize("small", [3e-12, 1e-13, 1e-15, -1e-13])
def test_what_a_root_leaves_out_of_a_form_is_in_its_misfit(small):
    """The definitions u = x - center are substituted, so the misfit is one in x."""
    P, center = np.array([[1.0, 1.0], [1.0, 1.0 + small]]), np.array([4e4, -4e4])
    x = cp.Variable(2)
    goal = cp.quad_form(x - center, cp.psd_wrap(P)) + 7.0
    tilted = cp.quad_form(x, cp.psd_wrap(P)) + 0.3 * x[0]
    levels = tb.from_cvxpy(cp.Minimize(goal), then=cp.Minimize(tilted))
    objectives = levels.program().objectives
    for seed in range(20):
        z = np.random.default_rng(seed).choice([-5e4, 0.0, 0.1, 3e4, 5e4], 2)
        for h, c in zip(objectives, (center, np.zeros(2)), strict=True):
            a, b = (Fraction(v) - Fraction(w) for v, w in zip(z, c, strict=True))
            true = (a + b) ** 2 + (Fraction(P[1, 1]) - 1) * b**2
            true += 7 if h is objectives[0] else Fraction(0.3) * Fraction(z[0])
            images = [
                sum(Fraction(f) * Fraction(v) for f, v in zip(row, z, strict=True)) - Fraction(t)
                for row, t in zip(sp.csr_array(h.squares).toarray(), h.target, strict=True)
            ]
            found = sum(image**2 for image in images) / 2 + Fraction(h.constant)
            found += sum(Fraction(q) * Fraction(v) for q, v in zip(h.linear, z, strict=True))
            assert abs(true - found) <= h.misfit(np.abs(z))
            assert h.misfit(np.abs(z)) <= 2e-3 * float(1 + np.max(np.abs(z - c)) / 1e5)


def test_levels_with_flat_quadratic_forms():
    """g - 100 = u² + d v² with x = (v + u, -v): small, but d is not a rounding error."""
    P = np.array([[1.0, 1.0], [1.0, 1.0 + 3e-12]])
    d, slack, far = P[1, 1] - 1.0, 1e-3, 4e4
    x = cp.Variable(2)
    flat = cp.Minimize(cp.quad_form(x, P) + 100)
    near = cp.Minimize(cp.sum_squares(x - np.array([far, -far])) / 1e8)
    box = [cp.abs(x) <= 5e4]
    found = tb.solve(tb.from_cvxpy(flat, near, box, radius=5.1e4, slacks=[slack]))
    best = 2.0 * (far - np.sqrt(slack / d)) ** 2 / 1e8
    first, second = found.levels.values()
    assert found.status in ("solved", "certified")
    assert first.best[0] <= 100.0 <= first.best[1]
    assert second.best[0] <= best <= second.best[1]
    assert second.value == pytest.approx(best, rel=1e-3)
    assert first.value <= 100.0 + 1.01 * slack

    found = tb.solve(tb.from_cvxpy(flat, cp.Minimize(-x[0]), [x[0] >= 1e4, *box], radius=1e5))
    best = 100.0 + 1e8 * d / (1.0 + d)
    first, _ = found.levels.values()
    assert first.best[0] <= best <= first.best[1]
    assert found.x[0] == pytest.approx(1e4)

    found = tb.solve(tb.from_cvxpy(flat, near, [cp.abs(x) <= 5], radius=10.0))
    np.testing.assert_allclose(found.x, 0.0, atol=1e-6)


def test_a_form_that_is_convex_up_to_rounding_is_bounded_as_given():
    P, far = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-13]]), 1e5
    x = cp.Variable(2)
    form = cp.Minimize(cp.quad_form(x, cp.psd_wrap(P)))
    levels = tb.from_cvxpy(form, cp.Minimize(x[0]), [cp.abs(x) <= far], radius=2 * far)
    least = (P[1, 1] - 1.0) * far**2  # at (far, -far)
    level = tb.solve(levels).levels["level 1"]
    assert level.best[0] <= least <= level.best[1]


# ---- Parameters ----


def test_parameters_are_applied_and_not_compiled_again(monkeypatch):
    """In the levels and in the constraints, linear and inside the squares."""
    x = cp.Variable(6)
    data, weight, bound = cp.Parameter(3), cp.Parameter(nonneg=True), cp.Parameter()
    levels = [
        cp.Minimize(cp.sum_squares(A @ x - data)),
        cp.Minimize(weight * cp.norm1(x) + cp.sum_squares(x)),
    ]
    constraints = [x <= bound]
    made = tb.from_cvxpy(levels[0], then=levels[1], constraints=constraints)
    with pytest.raises(ValueError, match=r"parameter param\d+ must have a value, got None$"):
        made.program()
    compiled = []
    apply = Dcp2Cone.apply
    monkeypatch.setattr(Dcp2Cone, "apply", lambda *a: compiled.append(1) or apply(*a))
    for draw in range(3):
        data.value, weight.value, bound.value = RNG.normal(size=3), 0.5 + draw, 0.3 + draw
        program = made.program()
        assert len(compiled) == 2  # one for each level, at the first values only
        for i, level in enumerate(levels):
            best = cp.Problem(level, constraints).solve(solver="CLARABEL")
            compiled.pop()
            value = program.objectives[i].value(solved_by_clarabel(program, i))
            assert value == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_parameters_against_dpp_are_taken_all_the_same():
    x, p, q = cp.Variable(6), cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
    levels = [cp.Minimize(cp.sum_squares(A @ x - B)), cp.Minimize(p * q * cp.norm1(x - p * q))]
    p.value, q.value = 1.0, 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # CVXPY's own: it compiles every time
        made = tb.from_cvxpy(levels[0], then=levels[1])
        for value in (1.0, 3.0):
            p.value = value
            z = np.zeros(made.program().size)
            best = made.program().objectives[1].value(solved_by_clarabel(made.program(), 1))
            assert best == pytest.approx(0.0, abs=1e-6)
            made.assign(z)
            assert levels[1].value == pytest.approx(2 * value * 6 * 2 * value)


# ---- Refusals ----


def refused():
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    S = cp.Variable((2, 2), symmetric=True, name="S")
    then = cp.Minimize(cp.norm1(x))
    square = cp.Minimize(cp.sum_squares(x))
    with_attribute = {
        word: cp.Variable((2, 2), name="v", **{attribute: True})
        for attribute, word in [
            ("integer", "integer"),
            ("boolean", "boolean"),
            ("complex", "complex"),
            ("PSD", "positive semidefinite"),
            ("NSD", "negative semidefinite"),
            ("hermitian", "Hermitian"),
        ]
    }
    for word, v in with_attribute.items():
        yield word, (cp.Minimize(cp.norm1(cp.real(v))), [then], []), f"got v, which is {word}$"
    yield "PSD", (square, [then], [S >> 0]), r"the constraint S .*>> 0 needs a semidefinite cone"
    yield (
        "lambda_max",
        (cp.Minimize(cp.lambda_max(S)), [then], []),
        r"level 1, lambda_max\(S\), needs a semidefinite cone",
    )
    yield (
        "pow3d",
        (square, [then], [cp.PowCone3D(x[0], x[1], x[2], 0.3)]),
        r"the constraint Pow3D.* needs a power cone",
    )
    for Q in (np.diag([1.0, -1.0, 0.0]), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0] * 3])):
        form = cp.Minimize(cp.quad_form(x, cp.psd_wrap(Q)))
        yield "form", (square, [form], [x <= 1, x >= -1]), r"level must be convex, got a quadratic"
    yield "concave", (cp.Minimize(cp.sqrt(x[0])), [then], []), r"level 1 must be convex"
    yield "then", (square, [cp.Maximize(cp.norm1(x))], []), r"level 2 must be concave"
    yield "set", (square, [then], [cp.norm(x) >= 1]), r"constraints must be convex"
    yield "empty", (square, [], []), r"then must contain at least one level, got none"
    yield "expression", (cp.sum_squares(x), [then], []), r"objective must be cp.Minimize"
    yield "function", (square, [then, abs], []), r"then\[1\] must be cp.Minimize.*, got builtin"
    yield "constraint", (square, [then], [x]), r"must be CVXPY constraints, got Variable"
    yield "one", (square, [then], x >= 0), r"constraints must be a list, got Inequality$"
    yield "constants", (cp.Minimize(1), [cp.Minimize(2)], []), r"must contain a variable"
    yield (
        "y",
        (square, [then], [cp.FiniteSet(y, [1.0, 2.0])]),
        r"constraints must not require integers, got FiniteSet",
    )


@pytest.mark.parametrize(("arguments", "sentence"), [case[1:] for case in refused()])
def test_what_cannot_be_taken_is_named_in_one_sentence(arguments, sentence):
    first, then, constraints = arguments
    with pytest.raises((ValueError, TypeError), match=sentence) as error:
        tb.from_cvxpy(first, then=then, constraints=constraints)
    message = str(error.value)
    assert message.startswith("from_cvxpy: ")
    assert "\n" not in message


@pytest.mark.parametrize("radius", [0.0, -1.0, float("inf"), float("nan")])
def test_a_radius_is_positive(radius):
    x = cp.Variable()
    with pytest.raises(ValueError, match="from_cvxpy: radius must be a positive finite number"):
        tb.from_cvxpy(cp.Minimize(x**2), then=cp.Minimize(x), radius=radius)


def test_one_slack_for_each_level_but_the_last():
    x = cp.Variable()
    with pytest.raises(ValueError, match="must be 1, one for each level but the last, got 2"):
        tb.from_cvxpy(cp.Minimize(x**2), then=cp.Minimize(x), slacks=[0.1, 0.2])
    with pytest.raises(ValueError, match="from_cvxpy: slacks must be a non-negative finite number"):
        tb.from_cvxpy(cp.Minimize(x**2), then=cp.Minimize(x), slacks=[-0.1])


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"slacks": 0.1}, "slacks must be a list, got float"),
        ({"names": "ab"}, "names must be a list, got str"),
        ({"names": [1, 2]}, r"names must be strings, got \[1, 2\]"),
        ({"radius": "1"}, "radius must be a positive finite number, got str"),
    ],
)
def test_options_of_the_wrong_kind(option, sentence):
    x = cp.Variable()
    with pytest.raises(TypeError, match=f"^from_cvxpy: {sentence}$"):
        tb.from_cvxpy(cp.Minimize(x**2), then=cp.Minimize(x), **option)


def test_names_differ():
    x = cp.Variable()
    with pytest.raises(ValueError, match="from_cvxpy: names must be 2 different strings"):
        tb.from_cvxpy(cp.Minimize(x**2), then=cp.Minimize(x), names=["fit", "fit"])


# ---- Values into the user's variables ----


def chain_that(status, z):
    level = LevelSolution(
        best=-2.0,
        bound=-3.0,
        error=1.0,
        value=-1.0,
        slack=30.0,  # so that the values at z do not count as lost
        dimension=1,
        held="image",
        word="proved",
        price=None,
        solver="Solved",
    )
    return lambda program, slacks, told: ChainSolution(
        z(program),
        (level,) * len(program.objectives),
        status,
        "it did not work",
        direction=np.zeros(program.size) if status == "unbounded" else None,
    )


@pytest.mark.parametrize("status", ["unbounded", "undetermined", "failed", "max_time"])
def test_variables_keep_their_values_on_failure(monkeypatch, status):
    x = cp.Variable(6, name="x")
    first, then = cp.Minimize(cp.sum_squares(A @ x - B)), cp.Minimize(cp.norm1(x))
    before = np.arange(6.0)
    x.value = before
    chain = chain_that(status, lambda program: np.zeros(program.size))
    monkeypatch.setattr("tiebreak.driver.solve_levels.solve_chain", chain)
    assert tb.solve(tb.from_cvxpy(first, then=then)).status == status
    np.testing.assert_array_equal(x.value, before)
    problem = cp.Problem(first)
    with pytest.raises(cp.SolverError, match=r"^tiebreak: it did not work$"):
        problem.solve(method="tiebreak", then=then)
    np.testing.assert_array_equal(x.value, before)


def test_compiling_leaves_the_variables_alone():
    x = cp.Variable(6)
    levels = tb.from_cvxpy(cp.Minimize(cp.norm1(x)), then=cp.Minimize(x[0]))
    assert x.value is None
    with pytest.raises((ValueError, IndexError, TypeError)):
        levels.assign("not a point")
    assert x.value is None


def test_values_that_variables_have_do_not_matter():
    """CVXPY 1.6 compiled quad_over_lin(x, y) with the value of y, if there is one."""
    x = cp.Variable(6)
    first, then = cp.quad_over_lin(A @ x - 9, 4 + x[0]), cp.sum_squares(x)
    best = cp.Problem(cp.Minimize(first), [cp.abs(x) <= 2]).solve(solver="CLARABEL")
    x.value = np.full(6, 7.0)
    made = tb.from_cvxpy(cp.Minimize(first), cp.Minimize(then), [cp.abs(x) <= 2])
    np.testing.assert_array_equal(x.value, np.full(6, 7.0))
    z = solved_by_clarabel(made.program(), 0)
    assert made.program().objectives[0].value(z) == pytest.approx(best, rel=1e-6)


def test_solve_of_a_problem(monkeypatch):
    """With a chain that answers z = 2: values, status and signs are the user's."""
    x = cp.Variable(6)
    problem = cp.Problem(cp.Maximize(-cp.sum_squares(x) + 1), [x >= -1])
    problem.solve(solver="CLARABEL")
    chain = chain_that("solved", lambda program: np.full(program.size, 2.0))
    monkeypatch.setattr("tiebreak.driver.solve_levels.solve_chain", chain)
    tb.register_cvxpy()
    then = [cp.Minimize(cp.norm1(x))]
    assert problem.solve(method="tiebreak", then=then) == pytest.approx(1 - 24)
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(1 - 24)
    assert problem.solution.opt_val == problem.value
    assert problem.constraints[0].dual_value is None
    np.testing.assert_array_equal(x.value, np.full(6, 2.0))
    levels = tb.from_cvxpy(problem.objective, then=then, constraints=problem.constraints)
    found = tb.solve(levels)
    assert [level.value for level in found.levels.values()] == [1 - 24, 12.0]  # at x
    assert [level.best for level in found.levels.values()] == [(1.0, 3.0), (-3.0, -1.0)]
    np.testing.assert_array_equal(found.x, x.value)


def test_a_level_that_is_lost_is_seen_by_its_value_in_cvxpy():
    """The auxiliary variables of a huber loss with an outlier hide how much worse it became."""
    rng = np.random.default_rng(3)
    rows, b = rng.normal(size=(6, 4)), rng.normal(size=6)
    b[0], rows[:, 3] = 1e8, rows[:, 0] + rows[:, 1]
    others = rng.normal(size=(3, 4))
    x = cp.Variable(4)
    first = cp.Minimize(cp.sum(cp.huber(rows @ x - b)))
    second = cp.Minimize(cp.sum(cp.huber(others @ x - [1.0, 2.0, 1e8])))
    last = cp.Minimize(cp.sum_squares(x - rng.normal(size=4)))
    result = tb.solve(tb.from_cvxpy(first, then=[second, last]))
    level = result.levels["level 1"]
    assert not (result.success and level.value > level.best[1] * (1.0 + 1e-3))


def test_solving_a_problem_again_compiles_nothing(monkeypatch):
    x, p = cp.Variable(6), cp.Parameter(value=1.0)
    problem, then = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - p))), [cp.Minimize(cp.norm1(x))]
    chain = chain_that("solved", lambda program: np.zeros(program.size))
    monkeypatch.setattr("tiebreak.driver.solve_levels.solve_chain", chain)
    made = []
    monkeypatch.setattr(
        "tiebreak.modelling.cvxpy_solve.from_cvxpy",
        lambda *a, **k: made.append(1) or tb.from_cvxpy(*a, **k),
    )
    tb.register_cvxpy()
    for value in (1.0, 2.0, 3.0):
        p.value = value
        assert problem.solve(method="tiebreak", then=then) == pytest.approx(3 * value**2)
    assert len(made) == 1
    problem.solve(method="tiebreak", then=[cp.Minimize(cp.norm_inf(x))])
    assert len(made) == 2
    gc.collect()


# ---- With the engine ----


def norm1_of_ties(data):
    """The least norm of what fits exactly."""
    y = cp.Variable(6)
    return cp.Problem(cp.Minimize(cp.norm1(y)), [A @ y == data, cp.abs(y) <= 1]).solve(
        solver="CLARABEL"
    )


def test_a_problem_of_cvxpy_with_a_parameter():
    """Exact fits at first, then data that the box keeps from being fitted: A x by bounded LSQ."""
    x, data = cp.Variable(6), cp.Parameter(3)
    constraints = [x >= -1, x <= 1]
    problem = cp.Problem(cp.Maximize(7 - cp.sum_squares(A @ x - data)), constraints)
    then = [cp.Minimize(cp.norm1(x)), cp.Maximize(x[0] - cp.sum_squares(x))]
    tb.register_cvxpy()
    for scale in (0.3, 0.6):
        data.value = scale * B
        value = problem.solve(method="tiebreak", then=then)
        assert value == problem.value == pytest.approx(7, abs=1e-12)
        assert problem.status == "optimal"
        np.testing.assert_allclose(A @ x.value, data.value, atol=1e-12)
        assert then[0].value == pytest.approx(norm1_of_ties(data.value), rel=1e-7)
    data.value = 40 * B
    value = problem.solve(method="tiebreak", then=then)
    fit = lsq_linear(A, data.value, (-1, 1), tol=1e-14)
    assert value == pytest.approx(7 - 2 * fit.cost, rel=1e-9)
    np.testing.assert_allclose(A @ x.value, A @ fit.x, atol=1e-7)


@pytest.mark.parametrize(
    ("constraints", "then"),
    [
        (lambda x: [x >= 1, cp.sum(x) <= 2], lambda x: cp.norm1(x)),
        (lambda x: [x[0] <= 3], lambda x: cp.sum(x)),
        (lambda x: [x[0] == 1, x[0] == 2], lambda x: cp.norm1(x)),
    ],
    ids=["infeasible", "unbounded", "equations that contradict"],
)
def test_what_has_no_answer_leaves_the_variables(constraints, then):
    x = cp.Variable(6)
    x.value = np.arange(6.0)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - B)), constraints(x))
    tb.register_cvxpy()
    with pytest.raises(cp.SolverError, match=r"^tiebreak: .*level|^tiebreak: no point") as error:
        problem.solve(method="tiebreak", then=cp.Minimize(then(x)))
    assert "\n" not in str(error.value)
    np.testing.assert_array_equal(x.value, np.arange(6.0))


def test_costs_in_tiny_units_leave_the_variables_known():
    x = cp.Variable(2)
    plan = tb.from_cvxpy(
        cp.Minimize(1e20 * cp.sum(x)), cp.Minimize(cp.sum_squares(x)), [x >= 0, cp.sum(x) >= 4]
    )
    np.testing.assert_allclose(tb.solve(plan).x, [2.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(x.value, [2.0, 2.0], atol=1e-6)


def test_slacks_of_a_problem_may_be_an_array():
    x = cp.Variable()
    problem = cp.Problem(cp.Minimize(x), [x >= 1])
    then = [cp.Maximize(x), cp.Minimize(x)]
    for slack in (0.5, 0.25):
        problem.solve(method="tiebreak", then=then, slacks=np.array([slack, 0.0]))
        assert x.value == pytest.approx(1 + slack, abs=1e-6)


def test_slacks_are_given_up():
    """min x over (x - 3)² <= slack, from its closed form; half of what was gained from 0 is 4.5."""
    x = cp.Variable()
    first, then = cp.Maximize(-((x - 3) ** 2)), cp.Minimize(x)
    for slack, room in ((0.25, 0.25), (tb.Slack(share=0.5), 4.5)):
        x.value = 0.0
        levels = tb.from_cvxpy(first, then=then, slacks=[slack], names=["fit", "small"])
        found = tb.solve(levels)
        assert x.value == pytest.approx(3 - np.sqrt(room), abs=1e-6)
        assert found.levels["fit"].slack == pytest.approx(room)
        assert found.levels["fit"].value == pytest.approx(-room, abs=1e-6)


SHARED = {  # an atom and its value at (2, 2)
    "norm1": (cp.norm1, 4.0),
    "norm_inf": (cp.norm_inf, 2.0),
    "norm2": (cp.norm2, np.sqrt(8.0)),
    "exp": (lambda y: cp.sum(cp.exp(y)), 2.0 * np.exp(2.0)),
    "log_sum_exp": (cp.log_sum_exp, 2.0 + np.log(2.0)),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("slack", [0.0, 0.88])
def test_an_atom_in_a_constraint_and_in_a_later_level(name, slack):
    """CVXPY writes it once for both: it must restrict the first level all the same."""
    atom, most = SHARED[name]
    y = cp.Variable(2)
    fit = cp.Minimize(cp.sum_squares(y - 3.0))  # 2 at y = (2, 2)
    levels = tb.from_cvxpy(fit, cp.Minimize(atom(y)), [atom(y) <= most], slacks=[slack])
    result = tb.solve(levels)
    assert result.success
    first = next(iter(result.levels.values()))
    assert first.best[0] - 1e-9 <= 2.0 <= first.best[1] + 1e-9
    assert np.allclose(y.value, 3.0 - np.sqrt((2.0 + slack) / 2.0), atol=1e-6)


@pytest.mark.full
def test_a_solve_by_parameter_costs_little_more_than_its_chain():
    """Against `solve_chain` alone on the same programs, in the same run."""
    n, m = 80, 40
    rows = RNG.normal(size=(m, n))
    x, data, weight = cp.Variable(n), cp.Parameter(m), cp.Parameter(nonneg=True)
    first, then = cp.Minimize(cp.sum_squares(rows @ x - data)), cp.Minimize(weight * cp.norm1(x))
    made = tb.from_cvxpy(first, then=then, constraints=[cp.abs(x) <= 2])
    ours, alone = [], []
    for _ in range(12):
        data.value, weight.value = RNG.normal(size=m), RNG.uniform(1, 2)
        begin = perf_counter()
        assert tb.solve(made).status == "solved"
        middle = perf_counter()
        solve_chain(made.program(), [None])
        ours.append(middle - begin)
        alone.append(perf_counter() - middle)
    ratio = np.median(ours[1:]) / np.median(alone[1:])
    print(f"a re-solve costs {ratio:.3f} of its chain")
    assert ratio <= 1.2


# ---- What the gate asks ----


def test_values_and_violations_are_those_of_cvxpy_at_x():
    x = cp.Variable(3)
    x.value = np.arange(3.0)
    constraints = [x <= 1, cp.norm(x) <= 2, cp.sum(x) == 1]
    levels = tb.from_cvxpy(
        cp.Minimize(cp.tv(x)), [cp.Maximize(-cp.norm1(x)), cp.Minimize(x[0])], constraints
    )
    at = np.array([1.0, 1.0, 3.0])
    (tv, tv_error), (norm, norm_error), (entry, _) = levels.values(at)
    assert (tv, norm, entry) == (2.0, -5.0, 1.0)
    assert 0.0 < max(tv_error, norm_error) <= 1e-12
    assert levels.values(np.full(3, 1e6))[0][1] >= 1e-10  # nothing is left of terms of 1e6
    amounts = [one.amount for one in levels.violations(at)]
    assert amounts == pytest.approx([2.0, np.sqrt(11.0) - 2.0, 4.0])
    assert all(one.size >= 1.0 for one in levels.violations(at))
    assert levels.violations(np.array([1.0, 0.0, 0.0])) == []
    np.testing.assert_array_equal(x.value, np.arange(3.0))


@pytest.mark.parametrize(
    ("constraints", "count"),
    [
        (lambda x: [x >= 1, cp.sum(x) <= 2, x <= 9], 2),
        (lambda x: [cp.norm(x) <= 1, x[0] >= 2, x[1] <= 5], 2),
        (lambda x: [cp.exp(x[0]) <= 1, x[0] >= 1, x[1] >= 0], 2),
    ],
)
def test_constraints_that_contradict_each_other_are_named(constraints, count):
    x = cp.Variable(3)
    given = constraints(x)
    result = tb.solve(tb.from_cvxpy(cp.Minimize(cp.sum_squares(x)), cp.Minimize(x[0]), given))
    assert result.status == "infeasible"
    assert [str(one) in result.message for one in given] == [True] * count + [False]


def test_the_norm_of_the_users_variables_decides_at_last():
    """|x - 1| over two entries, then the sum: what is left is the sum of two others."""
    x = cp.Variable(4)
    levels = [cp.Minimize(cp.norm1(x[:2] - 1)), cp.Minimize(cp.abs(cp.sum(x) - 5))]
    result = tb.solve(tb.from_cvxpy(levels[0], [levels[1], cp.Minimize(cp.max(x[:1]))], [x >= -9]))
    assert result.success
    assert x.value == pytest.approx([1.0, 1.0, 1.5, 1.5], abs=1e-9)
    assert "point of least norm" in str(result)


def test_a_far_bound_does_not_hide_what_another_entry_violates():
    x = cp.Variable(2)
    levels = tb.from_cvxpy(cp.Minimize(cp.sum(x)), cp.Minimize(x[0]), [x <= [1e9, 0.5], x >= -1e9])
    (found,) = levels.violations(np.array([0.0, 1.0]))
    assert found.amount == 0.5
    assert found.size <= 10.0


def test_an_answer_at_which_a_level_has_no_value_is_no_solution():
    x, y = cp.Variable(2), cp.Variable()
    levels = tb.from_cvxpy(
        cp.Minimize(cp.quad_over_lin(x, y)),  # 0/0 at the answer
        then=[cp.Minimize(y)],
        constraints=[x >= 0, y >= 0, y <= 2],
    )
    result = tb.solve(levels)
    assert not result.success
    assert x.value is None
