"""Time limits and Ctrl-C: when a call ends, and with what.  The clock is one that tests move."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import tiebreak as tb
from tiebreak.driver.registry import find_method
from tiebreak.driver.run import Run
from tiebreak.linalg import deadline, spectra


@pytest.fixture
def quick(monkeypatch):
    """Every estimate is 0: only the clock ends anything."""
    monkeypatch.setattr(deadline, "SPEED", math.inf)


@pytest.fixture
def slow(monkeypatch):
    """A machine that needs longer for the smallest factorisation than anybody would wait."""
    monkeypatch.setattr(deadline, "SPEED", 1e-9)


def counted(monkeypatch, name: str, then: Any = lambda calls: None) -> list[tuple[int, ...]]:
    """The shapes of all calls of a function of numpy.linalg; ``then`` is called after each."""
    shapes: list[tuple[int, ...]] = []
    original = getattr(np.linalg, name)

    def call(A: Any, *args: Any, **options: Any) -> Any:
        shapes.append(np.shape(A))
        then(len(shapes))
        return original(A, *args, **options)

    monkeypatch.setattr(np.linalg, name, call)
    return shapes


def one_hot(rows: int = 60, domain: Any = None) -> tb.Problem:
    """Logistic losses below, of two blocks of columns that add up to the same: a tie."""
    rng = np.random.default_rng(3)
    A = np.hstack([np.eye(4)[rng.integers(0, 4, rows)], np.eye(3)[rng.integers(0, 3, rows)]])
    lower = tb.Logistic(A, rng.choice([-1.0, 1.0], rows))
    return tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain or tb.Ball(3.0))


def pair(domain: Any = None, rows: int = 6, n: int = 12) -> tb.Problem:
    rng = np.random.default_rng(5)
    upper, lower = (
        tb.LeastSquares(rng.standard_normal((rows, n)), rng.standard_normal(rows)) for _ in range(2)
    )
    return tb.Problem(upper=upper, lower=lower, domain=domain or tb.Ball(2.0))


def watched(clock, seconds: float = 0.01) -> tb.Problem:
    """Least squares as callables, each look at g takes some time of the clock."""
    A, b = np.array([[1.0, 1.0, 0.0]]), np.array([1.0])

    def value(x: np.ndarray) -> float:
        clock.wait(seconds)
        return 0.5 * float((A @ x - b) @ (A @ x - b))

    lower = tb.Smooth(value, lambda x: A.T @ (A @ x - b), lipschitz=2.0, lower_bound=0.0)
    upper = tb.SquaredNorm(1.0, np.zeros(3))
    return tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0))


# --- the limit itself ----------------------------------------------------------------------------


def test_without_a_limit_nothing_is_asked_of_the_clock(monkeypatch):
    def broken() -> float:
        raise AssertionError

    monkeypatch.setattr("time.perf_counter", broken)
    deadline.check()
    deadline.check(1e300)
    with deadline.limited(None, 0.0):
        deadline.check(1e300)


def test_a_check_raises_once_the_time_is_up_and_before_work_that_does_not_fit(clock, monkeypatch):
    monkeypatch.setattr(deadline, "SPEED", 100.0)
    with deadline.limited(1.0) as limit:
        deadline.check(99.0)
        with pytest.raises(deadline.TooLong, match="would take 2 s more, but only 1 s are left"):
            deadline.check(200.0)
        clock.wait(0.5)
        deadline.check()
        with pytest.raises(deadline.TooLong):
            deadline.check(99.0)
        assert not limit.is_over
        clock.wait(0.5)
        assert limit.is_over
        with pytest.raises(deadline.TimeIsUp) as caught:
            deadline.check()
        assert not isinstance(caught.value, deadline.TooLong)
    deadline.check(1e300)  # outside there is none


def test_half_of_the_time_is_for_what_is_inside(clock, quick):
    with deadline.limited(8.0):
        with deadline.half():
            clock.wait(3.0)
            deadline.check()
            with deadline.half():
                clock.wait(0.6)
                with pytest.raises(deadline.TooLong):
                    deadline.check()
            deadline.check()
            clock.wait(1.0)
            with pytest.raises(deadline.TooLong):
                deadline.check()
        deadline.check()  # 3.4 s are left
        clock.wait(3.5)
        with pytest.raises(deadline.TimeIsUp):
            deadline.check()


def test_what_is_to_be_done_at_the_end_has_a_second_and_no_more(clock, quick):
    with deadline.limited(5.0) as limit:
        clock.wait(6.0)
        limit.close()
        deadline.check()
        assert limit.is_over
        assert limit.ending == "max_time"
        clock.wait(deadline.GRACE)
        with pytest.raises(deadline.TimeIsUp):
            deadline.check()
    with deadline.limited(50.0) as limit:  # it ended by itself: all of its time is its own
        limit.close()
        clock.wait(40.0)
        deadline.check()


def test_ctrl_c_is_heeded_once_and_leaves_a_second_for_the_end(clock, quick):
    with deadline.limited() as limit:
        limit.is_interrupted = True
        with pytest.raises(deadline.Interrupted):
            deadline.check()
        limit.close()
        deadline.check()
        assert limit.ending == "stopped"
        clock.wait(deadline.GRACE)
        with pytest.raises(deadline.TimeIsUp):
            deadline.check()


def test_a_limit_is_that_of_its_thread(clock):
    seen = []

    def other() -> None:
        deadline.check()
        seen.append("nothing")

    with deadline.limited(1.0):
        clock.wait(2.0)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == ["nothing"]


def test_the_work_of_a_factorisation_is_counted_as_its_multiplications():
    assert deadline.svd_work(10, 3) == deadline.svd_work(3, 10) == 90
    assert deadline.svd_work(10, 3, whole=True) == 300


# --- where it is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        one_hot(),
        one_hot(domain=tb.L1Ball(2.0)),
        one_hot(domain=tb.Space()),
        pair(),
        pair(tb.Orthant()),
        pair(tb.Simplex(1.0)),
        pair(tb.Space()),
    ],
    ids=["logistic ball", "logistic l1", "logistic R^n", "ball", "orthant", "simplex", "R^n"],
)
def test_an_exact_step_ends_at_the_next_check_after_its_time(problem, clock, quick, monkeypatch):
    whole = [counted(monkeypatch, name) for name in ("svd", "eigh")]
    assert tb.solve(problem, "exact", rtol=0.0).nit == 1
    monkeypatch.undo()
    in_all = sum(map(len, whole))
    assert in_all >= 2
    for most in {1, in_all // 2, in_all - 1} - {0}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.perf_counter", lambda: clock.now)
            patch.setattr(deadline, "SPEED", math.inf)
            calls = [counted(patch, name, lambda done: clock.wait(1.0)) for name in ("svd", "eigh")]
            result = tb.solve(problem, "exact", rtol=0.0, max_time=most - 0.5)
        if result.status == "max_time":
            assert sum(map(len, calls)) == most
            assert result.nit == 0
            np.testing.assert_array_equal(result.x, problem.start())
            assert math.isfinite(result.upper_value)
        else:  # x was there before the time was up: only the proof is missing
            assert result.status in ("solved", "certified")


def test_no_factorisation_is_begun_that_does_not_fit(slow, monkeypatch):
    names = ("svd", "eigh", "qr", "lstsq")
    calls = [counted(monkeypatch, name) for name in names]
    for problem in (one_hot(), pair(), pair(tb.Orthant()), pair(tb.Space())):
        result = tb.solve(problem, "exact", max_time=1e3)
        assert (result.status, result.nit) == ("max_time", 0)
    assert [len(shapes) for shapes in calls] == [0] * len(names)


def test_no_square_root_is_begun_that_does_not_fit(slow, monkeypatch):
    """Of a quadratic form, which is needed to write a level as cones."""
    calls = counted(monkeypatch, "eigh")
    rows = np.random.default_rng(4).standard_normal((3, 5))
    lower = tb.Quadratic(rows.T @ rows, np.zeros(5))
    cone = tb.SecondOrderCone(np.eye(5), np.zeros(5), np.zeros(5), 2.0)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=cone)
    for method in ("conic", "auto"):
        result = tb.solve(problem, method, max_time=1e3)
        assert (result.status, result.nit) == ("max_time", 0)
    levels = tb.Levels(lower, tb.L1(), tb.Linear(np.ones(5)), domain=tb.Box(-1.0, 1.0))
    of_levels = tb.solve(levels, x0=np.ones(5), max_time=1e3)
    assert of_levels.status == "max_time"
    assert not of_levels.levels
    assert np.all(of_levels.x == 1.0)
    assert calls == []
    assert "max_time" in str(of_levels)


@pytest.mark.parametrize("problem", [one_hot(), pair()], ids=["logistic", "least squares"])
def test_auto_takes_the_next_road_where_a_factorisation_does_not_fit(problem, slow):
    result = tb.solve(problem, max_time=1e3)
    assert result.success
    assert result.nit > 1
    assert "which failed (it would take" in result.method


def test_auto_gives_a_road_half_of_the_time_if_others_are_to_follow(clock, quick, monkeypatch):
    problem, ends = one_hot(), []
    counted(monkeypatch, "svd", lambda done: clock.wait(1.0))
    result = tb.solve(problem, rtol=1e-3, max_time=4.0, callback=lambda r: ends.append(r.time))
    assert "which failed (half of the remaining time is used up)" in result.method
    assert next(end for end in ends if end > 0.0) < 3.5
    assert result.nit > 10


def test_ctrl_c_ends_an_exact_step_at_its_next_check(monkeypatch):
    before = signal.getsignal(signal.SIGINT)

    def press(done: int) -> None:
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    calls = counted(monkeypatch, "svd", press)
    result = tb.solve(one_hot(), "exact")
    assert (result.status, result.nit, len(calls)) == ("stopped", 0, 3)
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopped" in str(result)


def test_a_second_ctrl_c_waits_for_no_check(monkeypatch):
    after = []

    def press(done: int) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        after.append(done)

    counted(monkeypatch, "svd", press)
    assert tb.solve(one_hot(), "exact").status == "stopped"
    assert after == []


def test_lanczos_and_exact_ranks_end_in_the_middle(clock, quick):
    calls = []

    def apply(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        clock.wait(1.0)
        return np.arange(1.0, 51.0) * x

    with deadline.limited(4.5), pytest.raises(deadline.TimeIsUp):
        spectra.extreme_eigenvalues(apply, np.zeros(50), 50)
    assert len(calls) == 5
    with deadline.limited(1.0) as limit:
        limit.is_interrupted = True
        with pytest.raises(deadline.Interrupted):
            spectra.exact_rank(np.eye(5))


def test_a_linear_program_gets_the_time_that_is_left(clock, quick, monkeypatch):
    limits = []
    original = scipy.optimize.linprog

    def program(*args: Any, options: dict[str, float], **more: Any) -> Any:
        limits.append(options["time_limit"])
        return original(*args, options=options, **more)

    monkeypatch.setattr(scipy.optimize, "linprog", program)
    monkeypatch.setitem(sys.modules, "highspy", None)  # so that SciPy's HiGHS is asked
    rng = np.random.default_rng(0)
    lower = tb.LeastSquares(rng.standard_normal((4, 9)), rng.standard_normal(4))
    problem = tb.Problem(upper=tb.L1(), lower=lower)
    assert tb.solve(problem, "exact", max_time=7.0).success
    assert limits
    assert all(limit == 7.0 for limit in limits)
    limits.clear()
    assert tb.solve(problem, "exact").success
    assert all(limit == math.inf for limit in limits)


def test_a_streamed_pass_ends_between_two_blocks(tmp_path, clock, quick):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "A.npy", rng.standard_normal((400, 8)))
    matrix = tb.Streamed(tmp_path / "A.npy", block=50 * 8 * 8)
    lower = tb.LeastSquares(matrix, rng.standard_normal(400), gram=False, lipschitz=1e3)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
    blocks = []
    matrix.on_progress = lambda rows: (blocks.append(rows), clock.wait(1.0))
    result = tb.solve(problem, "agm-bio", max_time=100.5, rtol=0.0)
    assert result.status == "max_time"
    assert len(blocks) <= 110  # a block after the limit, and a second's worth at the end


# --- before the first step, and after the last ---------------------------------------------------


def test_a_call_without_time_for_its_first_step_returns_the_start(clock, quick, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, 700))  # too large for eigenvalues: Lanczos
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A[:, 0]), domain=tb.Ball(1.0)
    )
    forward = type(problem.lower.matrix).forward

    def wait(self: Any, *xs: Any) -> Any:
        clock.wait(0.5)
        return forward(self, *xs)

    monkeypatch.setattr(type(problem.lower.matrix), "forward", wait)
    x0 = 0.01 * rng.standard_normal(700)
    result = tb.solve(problem, "agm-bio", x0=x0, max_time=5.0)
    assert (result.status, result.nit, result.success) == ("max_time", 0, False)
    np.testing.assert_array_equal(result.x, x0)
    assert result.lower_value == pytest.approx(0.5 * np.sum((A @ x0 - A[:, 0]) ** 2))
    assert math.isinf(result.upper_gap)
    assert "there was no time for the first step" in str(result)
    assert result.to_dict()["status"] == "max_time"
    assert clock.now < 5.0 + deadline.GRACE + 1.0
    assert len(result.trace) == 1


def test_a_call_without_time_for_its_next_step_returns_the_point_of_its_checkpoint(
    tmp_path, monkeypatch
):
    path = tmp_path / "run.npz"
    first = tb.solve(pair(), "adaptive", rtol=0.0, max_iter=50, checkpoint=path)
    before = path.read_bytes()

    def end(*args: Any, **options: Any) -> Run:
        raise deadline.TimeIsUp

    monkeypatch.setattr(sys.modules["tiebreak.driver.solve"], "Run", end)
    again = tb.solve(pair(), "adaptive", rtol=0.0, max_time=1e3, checkpoint=path)
    assert again.status == "max_time"
    np.testing.assert_array_equal(again.x, first.x)
    assert again.nit == 50
    assert again.upper_value == pytest.approx(first.upper_value, rel=1e-12)  # of carried images
    assert path.read_bytes() == before


def test_max_time_is_of_this_call_not_of_all_calls_of_a_checkpoint(clock, quick, tmp_path):
    steps = []
    for _ in range(3):
        result = tb.solve(
            watched(clock), "adaptive", rtol=0.0, max_time=3.0, max_iter=10**6,
            checkpoint=tmp_path / "run.npz",
        )  # fmt: skip
        assert result.status == "max_time"
        steps.append(result.nit)
    assert steps[0] > 10
    assert steps[1] >= steps[0] + 10
    assert steps[2] >= steps[1] + 10
    assert result.time >= 9.0  # the trace goes on


def test_a_proof_that_needs_a_factorisation_goes_without_where_that_does_not_fit(slow):
    problem = pair(tb.Space())
    assert math.isfinite(tb.solve(pair(tb.Space()), "adaptive").upper_error)  # by growth
    result = tb.solve(problem, "adaptive", max_time=1e3)
    assert result.nit > 10
    assert math.isinf(result.upper_error)
    assert "growth" not in vars(problem.lower)  # what was not found is not remembered


def test_a_step_that_ran_out_of_time_while_it_was_entered_did_not_happen(monkeypatch):
    problem = pair()
    run = Run(problem, find_method("agm-bio", problem), problem.start())
    run.step()
    before = run.state

    def end(evidence: Any) -> bool:
        raise deadline.TimeIsUp

    monkeypatch.setattr(run.accumulator, "add", end)
    with contextlib.suppress(deadline.TimeIsUp):
        run.step()
    assert run.state is before
    assert run.iteration == 1


def test_an_answer_without_time_for_its_certificate_is_still_returned(clock, quick, monkeypatch):
    def late(self: Run, x: Any) -> Any:
        clock.wait(100.0)
        deadline.check()

    problem = watched(clock)
    monkeypatch.setattr(Run, "certificate", late)
    result = tb.solve(problem, "adaptive", rtol=1e-2, max_time=50.0, criterion="weak")
    assert result.status == "certified"
    assert result.upper_gap <= result.tolerance[0]  # as the last row says
    assert result.lower_gap <= result.tolerance[1]


def test_the_dimension_of_a_call_that_was_cut_short_takes_no_longer(clock, slow):
    problem = pair(tb.Space())
    result = tb.solve(problem, "adaptive", rtol=0.0, max_iter=5)
    assert result.dimension == 6
    cut = tb.solve(pair(tb.Space()), "exact", max_time=5.0)
    assert (cut.status, cut.dimension) == ("max_time", None)


# --- certify -------------------------------------------------------------------------------------


def test_certify_ends_within_its_time_with_what_is_proved(clock, quick):
    x = np.array([0.5, 0.5, 0.0])
    proof = tb.certify(watched(clock), x, max_time=20.0)
    assert 20.0 <= clock.now < 22.0
    assert 0.0 <= proof.upper_gap < 1.0
    assert math.isfinite(proof.lower_gap)


def test_certify_gives_what_is_proved_at_ctrl_c(clock):
    calls = []

    def gradient(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        if len(calls) == 300:
            signal.raise_signal(signal.SIGINT)
        return x

    upper = tb.Smooth(lambda x: 0.5 * float(x @ x), gradient, lipschitz=1.0)
    problem = tb.Problem(
        upper=upper, lower=tb.LeastSquares([[1.0, 1.0]], [1.0]), domain=tb.Ball(2.0)
    )
    proof = tb.certify(problem, [0.5, 0.5])
    assert len(calls) < 320
    assert math.isfinite(proof.upper_gap)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, "1 s"])
def test_certify_refuses_a_time_that_is_none(value):
    with pytest.raises((ValueError, TypeError), match=r"^certify: max_time must be a positive"):
        tb.certify(pair(), np.zeros(12), max_time=value)


# --- what never ended, or took too much ----------------------------------------------------------


def test_a_ball_that_is_a_point_beside_the_data_has_its_answer():
    A, b = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 0.0]]), np.array([1.0, 2.0])
    center = np.full(4, 1e12)
    problem = tb.Problem(
        upper=tb.LeastSquares(A, b), lower=tb.LeastSquares(A, b), domain=tb.Ball(1e-300, center)
    )
    np.testing.assert_array_equal(tb.solve(problem, "exact").x, center)


def test_newton_in_a_ball_asks_for_no_square_of_all_rows(monkeypatch):
    original, largest = np.linalg.svd, []

    def svd(A: np.ndarray, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        found = original(A, full_matrices=full_matrices, compute_uv=compute_uv)
        largest.append(max(part.size for part in found) if compute_uv else found.size)
        return found

    monkeypatch.setattr(np.linalg, "svd", svd)
    assert tb.solve(one_hot(500), "exact").success
    assert max(largest) <= 500 * 7
