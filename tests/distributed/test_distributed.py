"""Rows in Ray workers: the same answers as in one process, few numbers on the way, workers die."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.backends import difference, solved, truth

import tiebreak as tb
from tiebreak import distributed
from tiebreak.distributed.rows import Rows, check_alike
from tiebreak.distributed.shards import Request, Shard, ShardFacts, Worker
from tiebreak.driver.counted import Counted
from tiebreak.functions.base import PointWithImage

ray: Any = pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
pa: Any = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[ray]'")
parquet: Any = pytest.importorskip("pyarrow.parquet")

# Ray leaves sockets and pipes to the garbage collector and announces changes of its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COLUMNS = 60


def in_memory(*given: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: given


def saved(folder: Path, A: np.ndarray, b: np.ndarray, count: int = 2) -> list[tuple[str, str]]:
    """Rows as pairs of .npy files, as many as asked for."""
    shards = []
    for i, rows in enumerate(np.array_split(np.arange(len(A)), count)):
        shards.append((str(folder / f"A{i}.npy"), str(folder / f"b{i}.npy")))
        np.save(shards[-1][0], A[rows])
        np.save(shards[-1][1], b[rows])
    return shards


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # no network
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # not to wait for other tests
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=80_000_000,
    )
    yield
    ray.shutdown()


class Data:
    """A wide lower level, so that there are ties, and a tall upper one."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.A, self.b = rng.standard_normal((41, COLUMNS)), rng.standard_normal(41)
        self.y = np.where(self.A[:, 0] + rng.standard_normal(41) > 0.0, 1.0, -1.0)
        self.C, self.c = rng.standard_normal((90, COLUMNS)), rng.standard_normal(90)
        self.L = float(np.linalg.norm(self.A, 2) ** 2)
        self.upper = tb.LeastSquares(self.C, self.c, gram=False)


@pytest.fixture(scope="module")
def data() -> Data:
    return Data()


@pytest.fixture(scope="module")
def twins(
    cluster: None, data: Data, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Any, Any]]:
    """The same function here and in workers, by name; made once for all tests."""
    folder = tmp_path_factory.mktemp("shards")
    halves = np.array_split(np.arange(41), 2)
    sparse = sp.csr_array(np.where(np.abs(data.A) > 1.0, data.A, 0.0))
    names = [f"x{j}" for j in range(COLUMNS)]
    tables = []
    for i, rows in enumerate(halves):
        columns = {"label": data.y[rows]} | dict(zip(names, data.A[rows].T, strict=True))
        tables.append(str(folder / f"part{i}.parquet"))
        parquet.write_table(pa.table(columns), tables[-1])
    L, of_mean = data.L, data.L / 4 / 41
    weights = np.arange(41.0) % 4.0  # some rows count for nothing
    counts, labels = np.round(np.abs(4.0 * data.b)), np.arange(41) % 3
    weighed = []
    for i, rows in enumerate(halves):
        columns = {"b": data.b[rows], "w": weights[rows]}
        columns |= dict(zip(names, data.A[rows].T, strict=True))
        weighed.append(str(folder / f"weighed{i}.parquet"))
        parquet.write_table(pa.table(columns), weighed[-1])
    return {
        "huber": (
            tb.Huber(data.A, data.b, 0.5, weights=weights, lipschitz=3 * L),
            distributed.Huber(weighed, target="b", weights="w", delta=0.5, lipschitz=3 * L),
        ),
        "poisson": (
            tb.Poisson(data.A, counts, mean=True),
            distributed.Poisson([in_memory(data.A[rows], counts[rows]) for rows in halves], True),
        ),
        "multinomial": (
            tb.Multinomial(data.A, labels, weights=weights, lipschitz=L),
            distributed.Multinomial(
                [in_memory(data.A[rows], labels[rows], weights[rows]) for rows in halves],
                classes=3,
                lipschitz=L,
            ),
        ),
        "squared hinge": (
            tb.SquaredHinge(data.A, data.y, lipschitz=2 * L),
            distributed.SquaredHinge(tables, target="label", lipschitz=2 * L),
        ),
        "weighted least squares": (
            tb.LeastSquares(data.A, data.b, True, weights=weights, gram=False, lipschitz=L),
            distributed.LeastSquares(
                [in_memory(data.A[rows], data.b[rows], weights[rows]) for rows in halves],
                mean=True,
                lipschitz=L,
            ),
        ),
        "least squares": (
            tb.LeastSquares(data.A, data.b, gram=False, lipschitz=L),
            distributed.LeastSquares(saved(folder, data.A, data.b, 3), workers=2, lipschitz=L),
        ),
        "logistic": (
            tb.Logistic(data.A, data.y, lipschitz=of_mean),
            distributed.Logistic(tables, target="label", lipschitz=of_mean),
        ),
        "sparse": (
            tb.LeastSquares(sparse, data.b, mean=True, gram=False, lipschitz=L / 41),
            distributed.LeastSquares(
                [in_memory(sparse[rows], data.b[rows]) for rows in halves],
                mean=True,
                lipschitz=L / 41,
            ),
        ),
    }


# --- the same answers ----------------------------------------------------------------------------


def problems(kind: str, h: Any, data: Data) -> tb.Problem:
    if kind == "sum above":
        return tb.Problem(
            upper=2 * h + tb.SquaredNorm(0.1),
            lower=tb.LeastSquares(data.C[:30], data.c[:30], gram=False),
            domain=tb.Box(-0.3, 0.3),
        )
    penalty = tb.L1(0.1) if kind == "penalty" else 0
    lower = h + penalty if penalty else h
    return tb.Problem(upper=data.upper, lower=lower, domain=tb.Ball(1.0))


def the_same(here: tb.Result, far: tb.Result) -> None:
    """x to 1e-7, values and certificate to 1e-9, relative."""
    assert far.nit == here.nit
    assert np.linalg.norm(far.x - here.x) <= 1e-7 * np.linalg.norm(here.x)
    for name in ("upper", "lower"):
        value = getattr(here, f"{name}_value")
        assert getattr(far, f"{name}_value") == pytest.approx(value, rel=1e-9)
        gap, size = getattr(here, f"{name}_gap"), max(abs(value), 1.0)
        assert getattr(far, f"{name}_gap") == pytest.approx(gap, rel=1e-9, abs=1e-9 * size)


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", [tb.AGMBiO(gamma=0.1), tb.AdaptiveAGMBiO()])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("least squares", "plain"),
        ("logistic", "plain"),
        ("sparse", "plain"),
        ("least squares", "sum above"),
        ("logistic", "penalty"),
        ("huber", "plain"),
        ("poisson", "plain"),
        ("squared hinge", "plain"),
        ("weighted least squares", "plain"),
    ],
)
def test_workers_give_the_same_answer_as_one_process(twins, data, name, kind, method):
    if kind == "penalty" and isinstance(method, tb.AGMBiO):
        method = tb.PAGMBiO(gamma=0.1)
    if name == "poisson":  # which has no Lipschitz constant
        method = tb.AdaptiveAGMBiO()
    here, far = (
        tb.solve(problems(kind, h, data), method, rtol=0, max_iter=70) for h in twins[name]
    )
    the_same(here, far)


def test_several_classes_on_workers_have_the_same_answer_as_in_one_process(twins):
    here, far = (
        tb.solve(
            tb.Problem(upper=tb.SquaredNorm(), lower=h, domain=tb.Ball(3.0)),
            tb.AGMBiO(gamma=0.1),
            rtol=0,
            max_iter=60,
        )
        for h in twins["multinomial"]
    )
    the_same(here, far)


def test_any_loss_of_a_linear_map_can_be_on_workers(cluster, data):
    kind = distributed.on_workers(tb.Huber)
    far = kind([in_memory(data.A, data.b)], delta=2.0)
    assert far.value(np.ones(COLUMNS)) == pytest.approx(
        tb.Huber(data.A, data.b, 2.0).value(np.ones(COLUMNS)), rel=1e-12
    )
    with pytest.raises(ValueError, match=r"^Huber: shards must all have weights or none"):
        kind([in_memory(data.A, data.b), in_memory(data.A, data.b, np.ones(41))])
    with pytest.raises(
        ValueError, match=r"^Multinomial: shards must all have the same number of columns"
    ):
        distributed.Multinomial(
            [in_memory(ROWS, np.array([0, 1, k])) for k in (1, 2)]  # without classes=3
        )
    with pytest.raises(TypeError, match=r"type Result|distributed|must be numbers in memory"):
        tb.Problem(upper=tb.SquaredNorm(), lower=far).save("here.npz")


@pytest.mark.parametrize("method", ["a-irg", "bi-sg", "sea", "cg-bio", "r-apm", "pb-apg", "auto"])
def test_every_method_that_needs_only_gradients_takes_rows_in_workers(twins, data, method):
    here, far = (
        tb.solve(problems("plain", h, data), method, rtol=0, max_iter=10) for h in twins["logistic"]
    )
    if method == "auto":  # it has an exact road in one process
        assert "because there is no exact method" in far.method
    else:
        the_same(here, far)


def test_value_gradient_and_constants_are_those_of_one_process(twins):
    rng = np.random.default_rng(0)
    for name, (here, far) in twins.items():
        x = rng.standard_normal(here.dimension)
        if name == "poisson":
            x = 0.1 * x
        assert far.value(x) == pytest.approx(here.value(x), rel=1e-12)
        np.testing.assert_allclose(far.gradient(x), here.gradient(x), rtol=1e-11, atol=1e-12)
        assert far.matrix.frobenius == pytest.approx(here.matrix.frobenius, rel=1e-12)
        assert far.matrix.shape == here.matrix.shape
        np.testing.assert_allclose(far.matrix.normal(x), here.matrix.normal(x), rtol=1e-11)
        if name == "poisson":
            continue
        del vars(far)["lipschitz"]
        size = np.linalg.norm(here._matrix_with_weights.dense(), 2) ** 2
        exact, most = here.curvature * here.scale * size, 1.3 if here.weights is None else 1.8
        assert exact <= far.lipschitz <= most * exact
        far.lipschitz = here.lipschitz


# --- what travels --------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [tb.AGMBiO(gamma=0.1), tb.AdaptiveAGMBiO()])
def test_a_round_sends_two_points_at_most_and_gets_two_slopes_and_eight_numbers(
    twins, data, method
):
    far = twins["least squares"][1]
    seen = []
    problem = problems("plain", far, data)
    tb.solve(problem, method, rtol=0, max_iter=140, callback=lambda _: seen.append(far.traffic))
    for before, after in itertools.pairwise(seen):
        rounds, points, recipe, slopes, scalars = np.subtract(after, before)
        if isinstance(method, tb.AGMBiO):  # the steps that multiply x and u anew are no others
            assert rounds == 1
        assert rounds >= 1
        assert points <= 2 * COLUMNS * rounds
        assert recipe <= 20 * rounds
        assert slopes + scalars <= (2 * COLUMNS + 8) * rounds
    assert len(far.matrix._kept) <= 8  # workers forget what the run has forgotten


def test_every_byte_that_a_round_sends_is_counted(twins, data, monkeypatch):
    far, sent = twins["least squares"][1], []
    original = Rows._send

    def noted(rows: Any, what: str, message: bytes, *some: Any) -> list[Any]:
        sent.append(len(message))
        return original(rows, what, message, *some)

    monkeypatch.setattr(Rows, "_send", noted)
    before = far.traffic
    tb.solve(problems("plain", far, data), tb.AGMBiO(gamma=0.1), rtol=0, max_iter=70)
    after = far.traffic
    assert after.rounds - before.rounds == len(sent)
    out = after.points + after.recipe - before.points - before.recipe
    assert 8 * out == pytest.approx(sum(sent), rel=1e-12)


# --- workers die, runs are continued -------------------------------------------------------------


def pid(worker: Any) -> int:
    """The process that a worker is now; a worker that is just being restarted is waited for."""
    found: int = ray.get(worker.__ray_call__.remote(lambda _: os.getpid()))
    return found


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL to send to a process")
def test_a_worker_that_dies_is_restarted_and_the_answer_is_the_same(cluster, data, tmp_path):
    shards = saved(tmp_path, data.A, data.b)
    here = tb.LeastSquares(data.A, data.b, gram=False, lipschitz=data.L)
    far = distributed.LeastSquares(shards, lipschitz=data.L)
    doomed = far.matrix.workers[1]

    def kill() -> int:
        # By the system: ray.kill only asks for it, and an answer may still come before.
        victim = pid(doomed)
        os.kill(victim, signal.SIGKILL)
        return victim

    def in_the_middle(now: Any) -> None:
        if now.nit == 25:
            victims.append(kill())

    victims: list[int] = []
    results = [
        tb.solve(problems("plain", h, data), tb.AGMBiO(gamma=0.1), rtol=0, max_iter=60, callback=do)
        for h, do in ((here, None), (far, in_the_middle))
    ]
    assert len(victims) == 1
    assert pid(doomed) != victims[0]
    the_same(*results)
    os.unlink(shards[1][0])
    kill()
    with pytest.raises(ValueError, match=r"^LeastSquares: shard 1: A must be a .npy file, got "):
        far.value(np.zeros(COLUMNS))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL to send to a process")
def test_a_worker_whose_rows_came_with_its_function_is_restarted_as_well(cluster):
    """Ray puts a large argument into its store and forgets it a second after the worker began."""
    A, x = np.random.default_rng(2).standard_normal((300, COLUMNS)), np.ones(COLUMNS)
    far = distributed.LeastSquares([in_memory(A, A @ x)], lipschitz=1e3)
    assert len(ray.cloudpickle.dumps(far.matrix.sources)) < 10_000  # a name for it, which we keep
    before = far.value(2.0 * x)
    os.kill(pid(far.matrix.workers[0]), signal.SIGKILL)
    assert far.value(2.0 * x) == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL to send to a process")
def test_a_restarted_worker_that_reads_other_rows_ends_the_call(cluster, data, tmp_path):
    """Bounds from the rows of before and values from the rows of now would prove nothing."""
    shards = saved(tmp_path, data.A, data.b)
    far = distributed.LeastSquares(shards, lipschitz=data.L)
    problem = problems("plain", far, data)
    changed = np.load(shards[1][0])
    changed[3, 5] += 1e-9

    def in_the_middle(now: Any) -> None:
        if now.nit == 5:
            np.save(shards[1][0], changed)
            os.kill(pid(far.matrix.workers[1]), signal.SIGKILL)

    same = "LeastSquares: shards must be the same if they are read again after a restart, got other"
    with pytest.raises(ValueError, match=same):
        tb.solve(problem, tb.AGMBiO(gamma=0.1), rtol=0, max_iter=60, callback=in_the_middle)
    x = np.ones(COLUMNS)
    rows = next(row for row in far.matrix.slices(5) if row.rows.start >= len(data.b) // 2)
    for ask in (lambda: far.value(x), lambda: far.matrix.normal(x), lambda: rows.entries @ x):
        with pytest.raises(ValueError, match=same):
            ask()


def on_two_workers(data: Data) -> Any:
    return OnWorkers(data.A).squares(data.b, data.L)


def test_a_worker_that_has_forgotten_its_images_is_sent_the_points(cluster, data):
    def forget(now: Any) -> None:
        if now.nit == 25:
            forgetful = far.matrix.workers[0]
            ray.get(forgetful.__ray_call__.remote(lambda worker: worker.shards[0].kept.clear()))

    far = on_two_workers(data)
    results = [
        tb.solve(
            problems("plain", far, data), tb.AGMBiO(gamma=0.1), rtol=0, max_iter=60, callback=do
        )
        for do in (None, forget)
    ]
    the_same(*results)


def test_an_error_in_a_worker_reaches_the_driver_by_ray_and_the_next_look_as_well(cluster, data):
    far, x = on_two_workers(data), np.ones(COLUMNS)
    value, rows = far.value(x), far.matrix
    with pytest.raises(RuntimeError, match=r"^LeastSquares: a worker failed with UnpicklingError"):
        rows._received(rows._send("reply", b"rubbish"))
    assert far.value(x) == value


def test_two_threads_on_one_problem_get_the_answers_of_one(cluster, data, count):
    """They share the workers, what these keep, and the names for it."""
    problem = problems("plain", on_two_workers(data), data)
    methods = (tb.AGMBiO(gamma=0.1), tb.AdaptiveAGMBiO())

    def solve(method: Any) -> Any:
        return tb.solve(problem, method, rtol=0, max_iter=20)

    alone = {method: solve(method) for method in methods}
    with ThreadPoolExecutor(2) as threads:
        for i in range(count(5, 50)):
            pair = methods[:1] * 2 if i % 2 else methods  # also the same points in both
            for method, found in zip(pair, threads.map(solve, pair), strict=True):
                np.testing.assert_array_equal(found.x, alone[method].x)
                the_same(alone[method], found)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [tb.AGMBiO(gamma=0.1), tb.AdaptiveAGMBiO()])
def test_a_run_goes_on_from_a_checkpoint_that_holds_points_not_images(
    twins, data, tmp_path, method
):
    far, file = twins["least squares"][1], tmp_path / "run.npz"
    problem = problems("plain", far, data)
    whole = tb.solve(problem, method, rtol=0, max_iter=40)
    tb.solve(problem, method, rtol=0, max_iter=17, checkpoint=file)
    goes_on = tb.solve(problem, method, rtol=0, max_iter=40, checkpoint=file)
    the_same(whole, goes_on)
    other = problems("plain", twins["sparse"][1], data)
    with pytest.raises(ValueError, match=r"lower differs"):
        tb.solve(other, method, rtol=0, max_iter=40, checkpoint=file)


# --- one worker, without Ray ---------------------------------------------------------------------


def test_a_worker_keeps_what_it_is_asked_to_and_says_when_it_does_not_know_an_image(data):
    worker = Worker(tb.LeastSquares, {0: in_memory(data.A, data.b)}, None)
    (shard,) = worker.shards
    p, q = np.random.default_rng(1).standard_normal((2, COLUMNS))

    def residual(x: np.ndarray) -> np.ndarray:
        return data.A @ x - data.b

    first = Request((0, 1, 2), np.array([p, q]), ((0, 1, 0.25),), (), (2,), (0,), ())
    answer = worker.evaluate(first)
    losses, slopes = pickle.loads(worker.reply(first.packed()))
    assert losses == answer.losses
    np.testing.assert_array_equal(slopes, answer.slopes)
    m = 0.75 * p + 0.25 * q
    np.testing.assert_allclose(answer.slopes, [data.A.T @ residual(m)], rtol=1e-12)
    expected = [0.5 * residual(x) @ residual(x) for x in (m, p)]
    np.testing.assert_allclose(answer.losses, expected, rtol=1e-12)
    assert set(shard.kept) == {0, 1, 2}
    # A mixture of kept images, made from them or multiplied anew; 0 is no longer wanted.
    for anew in ((), (2,)):
        second = Request((2, 1, 3), np.empty((0, COLUMNS)), ((0, 1, 0.5),), anew, (), (2,), ())
        halfway = residual(0.5 * m + 0.5 * q)
        assert worker.evaluate(second).losses == [pytest.approx(0.5 * halfway @ halfway, rel=1e-12)]
        assert set(shard.kept) == {1, 2, 3}
    third = Request((0,), np.empty((0, COLUMNS)), (), (), (0,), (), ())
    assert worker.evaluate(third) is None
    assert shard.kept.keys() == {1, 2, 3}


def test_float32_shards_stay_float32(data):
    A, b = data.A.astype(np.float32), data.b.astype(np.float32)
    worker = Worker(tb.LeastSquares, {0: in_memory(A, b)}, None)
    point = np.ones((1, COLUMNS), np.float32)
    answer = worker.evaluate(Request((0,), point, (), (), (0,), (), ()))
    assert answer.slopes.dtype == np.float32
    assert worker.each(Shard.facts)[0].dtype == "float32"


def test_a_point_in_float64_is_not_rounded_by_workers_in_silence(cluster, data):
    """A method from outside may hand one in; the proof would take the look to be in float64."""
    A, b = data.A.astype(np.float32), data.b.astype(np.float32)
    far = Counted(distributed.LeastSquares([in_memory(A, b)], lipschitz=data.L))
    narrow = np.ones(COLUMNS, np.float32)
    assert far.gradient(narrow).dtype == np.float32
    (image,) = far.forward(narrow)
    with pytest.raises(ValueError, match=r"be numpy float32 like its data, got numpy float64"):
        far.evaluate([PointWithImage(narrow.astype(np.float64), image)])


# --- wrong input ---------------------------------------------------------------------------------

ROWS = np.ones((3, 2))


def raises() -> None:
    raise OSError("disk on fire")


WRONG_SHARDS = {
    "missing file": (
        "LeastSquares",
        ("none.npy", "none.npy"),
        "shard 0: A must be a .npy file, got none.npy, which does not exist",
    ),
    "missing Parquet": ("LeastSquares", "none.parquet", "shard 0: no Parquet file at none.parquet"),
    "not a .npy file": (
        "Logistic",
        ("text", "text"),
        "shard 0: A must be a .npy file, got text, which is not one",
    ),
    "not a Parquet file": ("Logistic", "text", "shard 0: not a Parquet file: text"),
    "no such column": (
        "Logistic",
        "good.parquet",
        "shard 0: target must be a column of good.parquet, got 'label'",
    ),
    "words": (
        "Logistic",
        "words.parquet",
        "shard 0: column 'w' must hold numbers, got string",
    ),
    "loader fails": (
        "LeastSquares",
        raises,
        "shard 0: the loader failed with OSError: disk on fire",
    ),
    "loader returns A alone": (
        "LeastSquares",
        lambda: ROWS,
        "shard 0: the loader must return a pair (A, b), got an array of shape (3, 2)",
    ),
    "target too short": (
        "LeastSquares",
        in_memory(ROWS, np.ones(2)),
        "shard 0: b must have one entry per row of A (3), got 2",
    ),
    "nan": (
        "LeastSquares",
        in_memory(ROWS * np.nan, np.ones(3)),
        "shard 0: A must be finite, got NaN or infinite entries",
    ),
    "labels": (
        "Logistic",
        in_memory(ROWS, np.array([0.0, 1.0, 1.0])),
        "shard 0: y must hold labels -1 and +1, got values 0, 1",
    ),
    "no rows": (
        "Logistic",
        in_memory(ROWS[:0], np.ones(0)),
        "shard 0: A must have at least one row, got none",
    ),
    "words in A": (
        "LeastSquares",
        in_memory([["a", "b"]], np.ones(1)),
        "shard 0: A must be an array of numbers, got strings",
    ),
}


@pytest.mark.parametrize("case", WRONG_SHARDS)
def test_a_wrong_shard_gets_one_sentence(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("text")
    parquet.write_table(pa.table({"x": [1.0], "b": [1.0]}), "good.parquet")
    parquet.write_table(pa.table({"w": ["a"], "label": [1.0]}), "words.parquet")
    kind, source, sentence = WRONG_SHARDS[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        Worker(getattr(tb, kind), {0: source}, "label").each(Shard.facts)
    assert str(caught.value) == f"{kind}: {sentence}"
    assert len(str(caught.value)) < 160


WRONG_CALLS = {
    "no shards": (
        lambda make: make([]),
        "shards must be a list with at least one shard, got an empty list",
    ),
    "a file name": (
        lambda make: make("A.npy"),
        "shards must be a list with at least one shard, got str",
    ),
    "an array": (
        lambda make: make([ROWS]),
        "shard 0 must be a pair of .npy files, a Parquet file or a function that returns (A, b), "
        "got an array of shape (3, 2)",
    ),
    "no target": (
        lambda make: make(["part.parquet"]),
        "target must name the column that is b, got None",
    ),
    "target": (
        lambda make: make([raises], target=3),
        "target must be a column name, got int",
    ),
    "workers": (
        lambda make: make([raises], workers=0),
        "workers must be a whole number >= 1, got 0",
    ),
}


@pytest.mark.parametrize("kind", ["LeastSquares", "Logistic"])
@pytest.mark.parametrize("case", WRONG_CALLS)
def test_a_wrong_call_gets_one_sentence(case, kind):
    call, sentence = WRONG_CALLS[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(f"{kind}: {sentence}")) as caught:
        call(getattr(distributed, kind))
    assert len(str(caught.value)) < 160


def test_what_only_a_worker_can_know_reaches_the_driver_as_one_sentence(cluster):
    good = in_memory(ROWS, np.ones(3))
    with pytest.raises(ValueError, match=r"^LeastSquares: shard 1: A must be finite, got NaN"):
        distributed.LeastSquares([good, in_memory(ROWS * np.nan, np.ones(3))], workers=1)
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its module is unknown to workers
        distributed.LeastSquares([raises])
    assert str(caught.value) == (
        "LeastSquares: shard 0: the loader failed with RaySystemError: System error: "
        "No module named 'test_distributed'"
    )


def test_a_worker_that_cannot_be_restarted_gets_one_sentence(cluster, monkeypatch):
    loss = distributed.LeastSquares([in_memory(ROWS, np.ones(3))], workers=1)

    def died(sent):
        raise ray.exceptions.RayActorError(error_msg="output of Ray\nout of memory")

    monkeypatch.setattr(ray, "get", died)
    with pytest.raises(RuntimeError, match=r"a worker died and could not be restarted: out of mem"):
        loss.value(np.ones(2))


def test_shards_that_do_not_fit_together_get_one_sentence():
    def facts(A: np.ndarray, names: tuple[str, ...] = ()) -> ShardFacts:
        (found,) = Worker(tb.LeastSquares, {0: in_memory(A, np.ones(3))}, None).each(Shard.facts)
        return found._replace(names=names)

    for pair, sentence in (
        (
            (facts(ROWS), facts(np.ones((3, 4)))),
            "shards must all have the same number of columns, got 2 in shard 0 and 4 in shard 1",
        ),
        (
            (facts(ROWS), facts(ROWS.astype(np.float32))),
            "shards must have the same dtype, got float64 in shard 0 and float32 in shard 1",
        ),
        (
            (facts(ROWS, ("a", "b")), facts(ROWS, ("b", "a"))),
            "shards must have the same columns in the same order, got 'b' out of place in shard 1",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(f"LeastSquares: {sentence}")) as caught:
            check_alike("LeastSquares", pair)
        assert len(str(caught.value)) < 160


def test_without_ray_the_sentence_has_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs ray: pip install ray"):
        distributed.Logistic([in_memory(ROWS, np.ones(3))])


# --- the page for users --------------------------------------------------------------------------


def test_the_example_in_the_docs_runs(cluster, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/cluster.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "\ntiebreak: solved" in f"\n{printed}"  # Ray may have warned of a busy machine before
    assert "Traffic(rounds=" in printed


class OnWorkers:
    """A matrix whose rows go to two workers, together with what they are compared with."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A

    def shards(self, b: np.ndarray) -> list[Callable[[], tuple[Any, Any]]]:
        halves = np.array_split(np.arange(len(b)), 2)
        return [in_memory(self.A[rows], b[rows]) for rows in halves]

    def squares(self, b: np.ndarray, L: float) -> Any:
        return distributed.LeastSquares(self.shards(b), lipschitz=L)

    def logistic(self, b: np.ndarray, L: float) -> Any:
        return distributed.Logistic(self.shards(b), mean=False, lipschitz=L)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["adaptive", "paper"])
def test_the_ten_problems_of_all_backends(cluster, method, count):
    for number in range(count(2, 10)):
        found = solved(number, method, lambda A, name: OnWorkers(A))
        certificate, x = difference(found, truth(number, method))
        assert x <= 1e-7, number
        assert certificate <= 1e-9, number


def test_what_travels_is_what_was_packed():
    rng = np.random.default_rng(3)
    for points in (rng.standard_normal((2, 5)), np.empty((0, 5))):
        request = Request((7, 9, 11), points, ((0, 1, 0.1), (2, 0, 1 / 3)), (2,), (1,), (), (4, 5))
        back = Request.unpacked(request.packed(), 5, np.float64)
        assert back._replace(points=None) == request._replace(points=None)
        np.testing.assert_array_equal(back.points, points)
        assert len(request.packed()) <= 8 * (20 + points.size)


def test_both_levels_are_under_way_at_the_same_time(cluster, data, monkeypatch):
    """Of every two rounds that follow each other, the second is sent before the first is read."""
    f, g = (distributed.LeastSquares([in_memory(data.A, data.b)], lipschitz=1e3) for _ in range(2))
    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    events = []
    for name in ("_send", "_received"):
        original = getattr(Rows, name)

        def noted(rows: Any, *given: Any, name: str = name, original: Any = original) -> Any:
            events.append((name, rows is g.matrix))
            return original(rows, *given)

        monkeypatch.setattr(Rows, name, noted)
    tb.solve(problem, tb.AGMBiO(gamma=0.1), rtol=0, max_iter=3)
    steps = "".join("fg"[is_g] if name == "_send" else "FG"[is_g] for name, is_g in events)
    assert steps.count("fgGF") >= 3, steps


def test_a_few_rows_of_workers_at_a_time(cluster, tmp_path):
    rng = np.random.default_rng(8)
    A = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 8))
    y = np.where(A[:, 0] + rng.logistic(size=400) > 0, 1.0, -1.0)
    upper = tb.SquaredNorm(center=rng.normal(size=8))
    local = tb.Logistic(A, y)
    there = distributed.Logistic(saved(tmp_path, A, y), lipschitz=local.lipschitz)
    losses = there, tb.Logistic(A, y, lipschitz=local.lipschitz)
    method = tb.BregmanSVRG(batch=50)
    found = [
        tb.solve(tb.Problem(upper=upper, lower=g, domain=tb.Ball(9)), method, max_iter=10)
        for g in losses
    ]
    np.testing.assert_allclose(found[0].x, found[1].x, rtol=1e-9, atol=1e-9)
    assert losses[0].row_lipschitz == pytest.approx(losses[1].row_lipschitz)
