"""The formulas of the paper: hand-computed numbers, limits, and a run that obeys them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from planted import identities
from planted.identities import At

from tiebreak import theory
from tiebreak.theory import Theorem1, Theorem2, Theorem3

STEPS = [1, 2, 3, 5, 10, 100, 10**4, 10**7]


def constants(rng: np.random.Generator) -> dict[str, float]:
    names = ["L_f", "L_g", "distance", "modulus", "gradient_bound", "unit"]
    return {name: float(10 ** rng.uniform(-3, 3)) for name in names}


def theorems(seed: int) -> Iterator[tuple[Theorem1 | Theorem2 | Theorem3, str]]:
    c = constants(np.random.default_rng(seed))
    L_f, L_g, R0, alpha, M, w = c.values()
    yield Theorem1(L_f, L_g, L_f, R0, 3 * R0), "1"
    yield Theorem2(L_f, L_g, R0, 2.0, alpha, M, w), "2"
    yield Theorem2(0.0, L_g, R0, 1.3, alpha, M), "2, linear f"
    for l_f in (L_f, 0.0):
        S = theory.smoothness_weak_sharpness(l_f, L_g, alpha, M)
        yield Theorem3(l_f, L_g, S, R0, alpha, M), f"3, L_f = {l_f}"
        yield Theorem3(l_f, L_g, S or 1.0, R0, alpha, 0.0), "3, M = 0"


def test_hand_computed_numbers() -> None:
    assert theory.step_size(3, 2.0) == 0.5
    assert theory.step_sum(3, 2.0) == 0.75
    assert theory.auxiliary_step_size(3, 2.0) == 1.0
    assert identities.auxiliary_step_sum(3, 2.0) == 1.5
    # r = 2: p = 2/3, T = 8: T^p = 4; gamma = 1/(2·3/2·4 + 2) = 1/14, S = 2·3·4 + 2·2 = 28
    assert theory.smoothness_error_bound(2.0, 3.0, 2.0, 8) == pytest.approx(28)
    assert theory.smoothness_error_bound(2.0, 3.0, 2.0, 8, unit=6.0) == pytest.approx(8)
    # 2·5·2/(2·7·3 + 5·2) = 20/52
    assert theory.smoothness_weak_sharpness(2.0, 3.0, 5.0, 7.0) == pytest.approx(52 / 10)
    assert theory.smoothness_weak_sharpness(2.0, 3.0, 5.0, 0.1) == 2.0  # 20/(0.6 + 10) > 1
    assert theory.level_bound(3, L_g=2.0, distance=2.0) == 1.0
    assert identities.auxiliary_bound(3, L_g=3.0, distance=2.0) == 2.0
    one = Theorem1(L_f=3.0, L_g=2.0, smoothness=3.0, distance=2.0, diameter=4.0)
    assert one.upper(3) == 4.0  # 4·3·4/12
    assert one.lower(1) == 48.0  # 4·2·4/2 + 2·2·16/2
    assert one.lower(1, fixed=3) == 33.0  # 2·2·4/16 + 32
    assert one.lower_if_above(1) == 32.0  # (4·2·4 + 2·2·4·2)/2
    half = one._replace(smoothness=6.0)  # gamma = 1/2: 2·2·4/(3/4) = 64/3
    assert half.lower_if_above(1) == pytest.approx((32 + 64 / 3) / 2)
    two = Theorem2(2.0, 3.0, 1.0, 2.0, modulus=2.0, gradient_bound=0.5)
    assert two.upper(8) == pytest.approx(112 / 72)  # 8(3·4 + 2)/(8·9)
    first = (8 * 3 * (math.log(8) + 3) + 16 * 2 / 4) / 72
    assert two.lower(8) == pytest.approx(first)  # the other entry: (2·0.5/4)^2 = 1/16
    assert two.upper_floor(8) == pytest.approx(-0.5 * math.sqrt(first))
    assert two._replace(gradient_bound=40.0).lower(8) == pytest.approx(400)
    three = Theorem3(2.0, 3.0, 5.2, 1.0, modulus=5.0, gradient_bound=7.0)
    assert three.lower(1) == pytest.approx(12 + 4 * 5 * 5.2 / (7 * 2))
    assert three.upper_floor(1) == pytest.approx(-7 / 5 * 12 - 10.4)
    assert theory.upper_floor(8.0, order=2.0, modulus=4.0, gradient_bound=3.0) == -6.0


def test_polyak_step_is_the_multiplier_of_the_projection_onto_the_cut() -> None:
    slope, z = np.array([3.0, 4.0]), np.array([1.0, 2.0])
    mu = identities.polyak_step(2.0, float(slope @ z), 25.0, 3.0)  # g(0) = 2, level 3
    assert mu == pytest.approx((2 + 11 - 3) / 25)
    assert 2.0 + slope @ (z - mu * slope) == pytest.approx(3.0)
    assert identities.polyak_step(2.0, 0.0, 25.0, 3.0) == 0.0
    assert identities.polyak_step(2.0, 0.0, 0.0, 2.0) == 0.0


def test_sums_are_the_sums_of_the_steps_and_the_steps_are_admissible() -> None:
    S = L_g = 0.37
    for k in range(60):
        a, b = theory.step_size(k, S), theory.auxiliary_step_size(k, L_g)
        A = theory.step_sum(k + 1, S)
        B = identities.auxiliary_step_sum(k + 1, L_g)
        assert math.fsum(theory.step_size(i, S) for i in range(k + 1)) == pytest.approx(A)
        assert math.fsum(theory.auxiliary_step_size(i, L_g) for i in range(k + 1)) == pytest.approx(
            B
        )
        assert 2 * S * a**2 <= A
        assert L_g * b**2 <= B
        assert L_g * (1.5 * b) ** 2 > B  # half as much again would not be


def test_the_auxiliary_run_gives_levels_only_one_step_ahead() -> None:
    at = {"L_g": 3.0, "distance": 0.7}
    for k in range(50):
        assert identities.auxiliary_bound(k + 1, **at) <= theory.level_bound(k, **at)
        assert k == 0 or identities.auxiliary_bound(k, **at) > theory.level_bound(k, **at)
        # steps b_k half as long double the bound, too much for k >= 1
        assert (2 * identities.auxiliary_bound(k + 1, **at) > theory.level_bound(k, **at)) == (
            k >= 1
        )


def test_level_term_covers_the_weighted_average_of_admissible_levels() -> None:
    at = {"L_g": 3.0, "distance": 0.7}
    for k in [1, 2, 7, 300]:
        terms = [theory.step_size(i, 2.0) * theory.level_bound(i, **at) for i in range(k)]
        average = math.fsum(terms) / theory.step_sum(k, 2.0)
        assert average <= theory.level_term(k, **at) * (1 + 1e-14)
        assert average >= theory.level_term(k, **at) * 0.6
    assert theory.level_term(5, fixed=9, **at) == theory.level_bound(9, **at)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_decrease(seed: int) -> None:
    for theorem, label in theorems(seed):
        for k, later in itertools.pairwise(STEPS):
            assert theorem.upper(later) < theorem.upper(k), label
            for now, then in [(None, None), (k, later)]:
                if isinstance(theorem, Theorem1):
                    bounds: list[Callable[[int, int | None], float]] = [
                        theorem.lower,
                        theorem.lower_if_above,
                    ]
                else:
                    bounds = [theorem.lower, lambda k, fixed, t=theorem: -t.upper_floor(k, fixed)]
                for bound in bounds:
                    before, after = bound(k, now), bound(later, then)
                    assert after < before or after == before in (0, math.inf), label
                    assert after >= 0, label


@pytest.mark.parametrize("seed", range(5))
def test_fixed_levels_remove_the_logarithm(seed: int) -> None:
    for theorem, label in theorems(seed):
        for k in [4, 100, 10**6]:  # 2/(k+1)² < 4 (ln k + 1)/(k(k+1)) already from k = 1
            assert theorem.lower(k, fixed=k) <= theorem.lower(k), label
        one = Theorem1(1.0, 1.0, 1.0, 1.0, 0.0)
        assert one.lower(10**6, fixed=10**6) < one.lower(10**6) / 25


@pytest.mark.parametrize("seed", range(20))
def test_theorems_choose_an_admissible_weight(seed: int) -> None:
    L_f, L_g, R0, alpha, M, w = constants(np.random.default_rng(seed)).values()
    S = theory.smoothness_weak_sharpness(L_f, L_g, alpha, M)
    smallest = theory.smallest_weight(L_f=L_f, L_g=L_g, smoothness=S)
    assert alpha / (2 * M) >= smallest * (1 - 1e-12)
    gamma = L_f / S
    assert gamma == pytest.approx(min(2 * alpha * L_f / (2 * M * L_g + alpha * L_f), 1))
    if gamma < 1:  # the theorem's gamma is the largest: at a larger one lambda is too small
        bigger = theory.smallest_weight(L_f=L_f, L_g=L_g, smoothness=S * 0.99)
        assert alpha / (2 * M) < bigger
    for T in STEPS:
        theorem = Theorem2(L_f, L_g, R0, 1.7, alpha, M, w)
        S = theorem.smoothness(T)
        assert 2 * L_f <= S
        assert theorem.weight(T) >= theory.smallest_weight(L_f=L_f, L_g=L_g, smoothness=S)
        assert L_f / S == pytest.approx(1 / (2 * L_g / w / L_f * T ** (1.4 / 2.4) + 2))


def test_smallest_weight_is_the_one_at_which_the_moves_cancel() -> None:
    # lambda (gamma/4 - 1/2) + gamma/4 · L_g/L_f = 0
    for gamma in (0.01, 0.5, 1.0):
        lam = theory.smallest_weight(L_f=2.0, L_g=3.0, smoothness=2.0 / gamma)
        assert lam * (gamma / 4 - 1 / 2) + gamma / 4 * 3 / 2 == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_theorem_2_is_sharper_than_what_the_paper_prints(seed: int) -> None:
    L_f, L_g, R0, alpha, M, _ = constants(np.random.default_rng(seed)).values()
    for r in (1.1, 2.0, 5.0):
        p = (2 * r - 2) / (2 * r - 1)
        theorem = Theorem2(L_f, L_g, R0, r, alpha, M)
        C_f, C_g, C = 8 * L_f * R0**2, 12 * L_g * R0**2, M * (r / alpha) ** (1 / r)
        for T in STEPS:
            log = math.log(T) + 1
            second = (2 * C) ** (r / (r - 1)) / T ** (2 * r / (2 * r - 1))
            sheet = max(2 * C_g * log / T**2 + 2 * C_f / T ** (2 + p), second)
            text = max(2 * C_g * log / T ** (2 - p) + 2 * C_f / T**2, second)
            appendix = max(2 * C_g * log / T**2 + 2 * C_f / T ** (2 - p), second)
            slack = 1 + 1e-9
            assert theorem.lower(T) <= sheet * slack
            assert sheet <= min(text, appendix) * slack
            assert theorem.upper(T) <= (C_g * log / T ** (2 - p) + C_f / T**2) * slack
            assert theorem.upper_floor(T) >= -C * text ** (1 / r) * slack


def test_theorem_2_changes_with_the_units_as_it_should() -> None:
    """f in units of 1/s and g in units of 1/t: the step a_k goes with 1/s, the bounds with s, t."""
    s, t, T = 1e3, 1e-2, 50
    base = Theorem2(2.0, 3.0, 1.5, 2.0, 0.7, 0.9, unit=4.0)
    scaled = Theorem2(2.0 * s, 3.0 * t, 1.5, 2.0, 0.7 * t, 0.9 * s, unit=4.0 * t / s)
    assert scaled.smoothness(T) == pytest.approx(s * base.smoothness(T))
    assert scaled.upper(T) == pytest.approx(s * base.upper(T))
    assert scaled.lower(T) == pytest.approx(t * base.lower(T))
    assert scaled.upper_floor(T) == pytest.approx(s * base.upper_floor(T))


def test_limits_for_a_linear_upper_objective() -> None:
    assert theory.smoothness_error_bound(0.0, 3.0, 2.0, 8) == pytest.approx(24)
    assert theory.smoothness_weak_sharpness(0.0, 3.0, 5.0, 7.0) == pytest.approx(21 / 5)
    for L_f in (1e-3, 1e-6, 1e-9):
        near, limit = (Theorem2(c, 3.0, 1.5, 2.0, 0.7, 0.9) for c in (L_f, 0.0))
        assert near.upper(9) == pytest.approx(limit.upper(9), rel=L_f)
        assert near.lower(9) == pytest.approx(limit.lower(9), rel=L_f)
        near3, limit3 = (
            Theorem3(c, 3.0, theory.smoothness_weak_sharpness(c, 3.0, 5.0, 7.0), 1.5, 5.0, 7.0)
            for c in (L_f, 0.0)
        )
        assert near3.lower(9) == pytest.approx(limit3.lower(9), rel=L_f)


def test_theorem_3_without_slope_is_theorem_1_iii() -> None:
    three = Theorem3(2.0, 3.0, 2.0, 1.5, 5.0, 0.0)
    assert three.lower(9) == Theorem1(2.0, 3.0, 2.0, 1.5).lower_if_above(9)
    assert three.upper_floor(9) == 0.0


def test_huge_powers_are_infinite_bounds() -> None:
    assert Theorem2(1.0, 1.0, 1.0, 1.001, 1e-9, 1e9).lower(2) == math.inf
    assert Theorem2(1.0, 1.0, 1.0, 1.001, 1e-9, 1e9).upper_floor(2) == -math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.step_size(-1, 1.0), "at least 0"),
        (lambda: theory.step_sum(1, 0.0), "smoothness must be positive"),
        (lambda: theory.auxiliary_step_size(1, 0.0), "L_g must be positive"),
        (lambda: theory.level_bound(-1, L_g=1.0, distance=1.0), "at least 0"),
        (lambda: Theorem1(1.0, 1.0, 1.0, 1.0, 1.0).upper(0), "at least 1"),
        (lambda: Theorem1(1.0, 1.0, 1.0, 1.0, 1.0).lower(0), "at least 1"),
        (lambda: Theorem1(1.0, 1.0, 0.5, 1.0, 1.0).lower_if_above(1), "exceed L_f/2"),
        (lambda: Theorem2(1.0, 1.0, 1.0, 1.0, 1.0, 1.0).upper(1), "order > 1"),
        (lambda: Theorem2(1.0, 1.0, 1.0, 2.0, 0.0, 1.0).lower(1), "modulus must be positive"),
        (lambda: Theorem2(1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 0.0).lower(1), "unit must be positive"),
        (lambda: Theorem2(1.0, 1.0, 1.0, 2.0, 1.0, 1.0).lower(0), "at least 1"),
        (lambda: Theorem3(1.0, 1.0, 1.0, 1.0, 0.1, 1.0).lower(1), "at least 10.5"),
        (
            lambda: theory.upper_floor(1.0, order=0.5, modulus=1.0, gradient_bound=1.0),
            "order >= 1",
        ),
        (
            lambda: theory.upper_floor(-1.0, order=1.0, modulus=1.0, gradient_bound=1.0),
            "lower_gap >= 0",
        ),
    ],
)
def test_arguments_without_sense_are_refused(call: Callable[[], float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


# --- a run: least norm among the minimisers of g = |x_1 + x_2 - 2|²/2, x* = (1, 1) ---------------


def run(gamma: float, steps: int, wrong: float = 1.0) -> Iterator[dict[str, float]]:
    """Algorithm 1 on R^3 with the exact level 0; ``wrong`` spoils a_k in one place."""
    star, a_row = np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0])
    x = z = np.array([4.0, -3.0, 2.0])
    S = 1.0 / gamma
    for k in range(steps):
        a, A = theory.step_size(k, S), theory.step_sum(k, S)
        y = (A * x + a * z) / (A + a)
        slope_f, g_y = y, (a_row @ y - 2) ** 2 / 2
        slope_g = (a_row @ y - 2) * a_row
        v = z - wrong * a * slope_f
        mu = identities.polyak_step(g_y, slope_g @ (v - y), slope_g @ slope_g, 0.0)
        z_next = v - mu * slope_g
        x_next = (A * x + a * z_next) / (A + a)

        def f(p: np.ndarray, y: np.ndarray = y) -> At:
            return At(float(p @ p) / 2, float(y @ (p - y)))

        def g(p: np.ndarray, y: np.ndarray = y, slope: np.ndarray = slope_g) -> At:
            return At(float(a_row @ p - 2) ** 2 / 2, float(slope @ (p - y)))

        slack = float((z_next - z + a * slope_f) @ (star - z_next))
        upper, upper_scale = identities.upper_identity(
            step=a,
            total=A,
            y=f(y).value,
            x=f(x),
            x_next=f(x_next),
            star=f(star),
            distance=float(np.linalg.norm(z - star)),
            distance_next=float(np.linalg.norm(z_next - star)),
            move=float(np.linalg.norm(z_next - z)),
            slack=slack,
        )
        lower, lower_scale = identities.lower_identity(
            step=a,
            total=A,
            y=float(g_y),
            x=g(x),
            x_next=g(x_next),
            cut=float(g_y + slope_g @ (z_next - y)),
            optimum=k * 0.1,
        )
        x, z = x_next, z_next
        yield {
            "k": k + 1,
            "upper": abs(upper) / upper_scale,
            "lower": abs(lower) / lower_scale,
            "slack": slack,
            "f": float(x @ x) / 2 - 1,
            "g": float(a_row @ x - 2) ** 2 / 2,
        }


@pytest.mark.parametrize("gamma", [1.0, 0.3, 1e-2])
def test_the_identities_hold_to_rounding_and_the_bounds_hold(gamma: float) -> None:
    distance = math.sqrt(9 + 16 + 4)
    theorem = Theorem1(1.0, 2.0, 1.0 / gamma, distance)
    weight = theory.smallest_weight(L_f=1.0, L_g=2.0, smoothness=1.0 / gamma)
    for row in run(gamma, 200):
        k = int(row["k"])
        assert row["upper"] < 1e-15
        assert row["lower"] < 1e-15
        assert row["slack"] > -1e-13
        assert row["f"] <= theorem.upper(k)
        assert weight * row["f"] + row["g"] <= theory.weighted_sum(
            k, weight=weight, L_g=2.0, smoothness=1.0 / gamma, distance=distance, fixed=10**9
        )
        if row["f"] >= 0:
            assert row["g"] <= theorem.lower_if_above(k, fixed=10**9) * (1 + 1e-12) + 1e-30
        floor = theory.upper_floor(row["g"], order=2, modulus=2.0, gradient_bound=math.sqrt(2))
        assert row["f"] >= floor * (1 + 1e-12) - 1e-15


def test_the_identities_notice_an_error() -> None:
    values = {"step": 1.0, "total": 2.0, "y": 1.0, "x": At(2.0, 0.3), "x_next": At(3.0, 0.6)}
    exact = (3 * 0.6 - 2 * 0.3) / 1.0 + 1.0  # any numbers with A_{k+1} x_{k+1} = A_k x_k + a_k z
    assert identities.lower_identity(**values, cut=exact)[0] == pytest.approx(0, abs=1e-15)
    residual, scale = identities.lower_identity(**values, cut=exact + 1e-9)
    assert abs(residual) == pytest.approx(1e-9)
    assert abs(residual) > 1e-13 * scale
    assert max(row["slack"] for row in run(1.0, 50, wrong=1.0)) >= 0
    assert min(row["slack"] for row in run(1.0, 50, wrong=-1.0)) < -1e-3
