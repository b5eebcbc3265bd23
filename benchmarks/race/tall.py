"""Tall data with ties: how often must the rows be read to an answer?

    python benchmarks/race/tall.py --seed 1 [--only 0 3] [--set ball|low-ball|box] [--rows sparse|
                                   float32|sorted] [--proof] [--field] [--data FOLDER]

Six draws of logistic losses, 20,000 rows and 100 to 300 columns of smaller rank, below; above the
distance to a point outside of the row space, or least squares of 2,000 rows. Counted by the matrix
are the rows that a method reads until f and g are within 1e-4 of an answer that is computed in the
known row space, and stay there; |f - f*| relative to max(|f*|, |f(0) - f*|), g - g* to g(0) - g*. A
full gradient or an epoch of slices is a reading. `exact` and `auto` run to their own end.

    --set     a ball that binds f, a smaller one that binds g, or a box that binds f
    --rows    sparse ones, single precision, or sorted by their labels
    --field   the other methods of finite sums too, in Ball(2 |x*|), and SVRG on g + eta f
    --proof   the readings until br-svrg is certified at rtol = 1e-2, weakly, in Ball(2 |x*|)
    --data    real data in one-hot codes instead: a5a of this folder, and what statsmodels has
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tiebreak as tb
from tiebreak.driver.run import Run
from tiebreak.linalg import arrays

Host = np.ndarray[Any, Any]
ROWS, ABOVE, BUDGET, ACCURACY = 20_000, 2_000, 1_000, 1e-4
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"cond": 3.0},
    {"cond": 30.0},
    {"n": 300, "rank": 150},
    {"is_fit": True},
    {"is_fit": True, "n": 200},
)


class Instance(NamedTuple):
    """A problem, its answer, and the answer for whoever minimises g alone."""

    title: str
    problem: tb.Problem
    upper: float  # f*
    lower: float  # g*
    scales: tuple[float, float]
    size: float  # |x*|
    control: float  # |f - f*| where g alone is minimised from 0, relative

    def errors(self, f: float, g: float) -> float:
        """The larger error of both levels, relative."""
        return max(abs(f - self.upper) / self.scales[0], (g - self.lower) / self.scales[1])


def sigmoid(t: Host) -> Host:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * t)))


def newton(B: Host, y: Host, tilt: float = 0.0) -> tuple[Host, Host]:
    """The minimiser of the mean logistic loss of B z and tilt/2 |z|², and its Hessian there."""
    z, m = np.zeros(B.shape[1]), len(y)
    for _ in range(50):
        p = sigmoid(B @ z)
        slope = B.T @ (p - (y > 0.0)) / m + tilt * z
        H = (B * (p * (1.0 - p))[:, None]).T @ B / m + tilt * np.eye(len(z))
        d = np.linalg.solve(H, slope)
        z = z - d / max(1.0, np.max(np.abs(B @ d)))
        if np.linalg.norm(d) <= 1e-14 * np.linalg.norm(z):
            break
    return z, H


def bisected(side: Callable[[float], float], low: float, high: float) -> float:
    """Where a decreasing function of a positive number is 0, to rounding."""
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if side(middle) > 0.0 else (low, middle)
    return math.sqrt(low * high)


def drawn(seed: int, index: int, over: str, kind: str) -> Instance:
    """The draw of this number."""
    shape = {"n": 100, "rank": 50, "cond": 10.0, "is_fit": False, **SHAPES[index]}
    rng, n, rank = np.random.default_rng([seed, index]), shape["n"], shape["rank"]
    if kind == "sparse":
        import scipy.sparse as sp

        base = sp.random_array((ROWS, rank), density=0.04, rng=rng, format="csr")
        base = base * 5.0
        T: Any = np.eye(rank, n)
        T[rng.integers(0, rank, n - rank), np.arange(rank, n)] = 1.0
        A: Any = sp.csr_array(base @ sp.csr_array(T))
        V = np.linalg.qr(T.T)[0]
    else:
        turn = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
        B = rng.standard_normal((ROWS, rank)) @ (
            np.geomspace(1.0, 1.0 / shape["cond"], rank)[:, None] * turn
        )
        V = np.linalg.qr(rng.standard_normal((n, rank)))[0]
        A = B @ V.T
    truth = rng.standard_normal(n)
    y = np.where(rng.random(ROWS) < sigmoid(A @ truth), 1.0, -1.0)
    if kind == "sorted":
        places = np.argsort(y, kind="stable")
        A, y = np.ascontiguousarray(A[places]), y[places]
    if shape["is_fit"]:
        C = rng.standard_normal((ABOVE, n)) * np.geomspace(1.0, 0.3, n)
        d = C @ (truth + rng.standard_normal(n)) + 0.5 * rng.standard_normal(ABOVE)
        H, h = C.T @ C / ABOVE, C.T @ d / ABOVE
        upper: Any = tb.LeastSquares(C, d, mean=True)
    else:
        h = rng.standard_normal(n)
        H, upper = np.eye(n), tb.SquaredNorm(center=h)
    N = np.linalg.svd(V.T, full_matrices=True)[2][rank:].T
    image = np.asarray(A @ V)

    def value(x: Host) -> float:
        return 0.5 * float(np.mean((C @ x - d) ** 2) if shape["is_fit"] else (x - h) @ (x - h))

    def loss(x: Host) -> float:
        return float(np.mean(np.logaddexp(0.0, -y * (A @ x))))

    z, hessian = newton(image, y)
    domain: Any = tb.Space()
    x = answered(V, N, image, y, H, h, math.inf)
    if over == "low-ball":  # no minimiser of g on R^n is in it
        domain = tb.Ball(0.7 * float(np.linalg.norm(z)))
    elif over == "ball":  # between the shortest minimiser of g and the answer on R^n
        domain = tb.Ball(float(0.5 * (np.linalg.norm(z) + np.linalg.norm(x))))
    if over in ("ball", "low-ball"):
        x = answered(V, N, image, y, H, h, domain.radius)
    if over == "box":
        x, domain = _in_box(V, z, H, h, x)
    control = V @ z if over != "low-ball" else np.zeros(n)
    if kind == "float32":
        A, y = A.astype(np.float32), y.astype(np.float32)
        upper = (
            tb.LeastSquares(C.astype(np.float32), d.astype(np.float32), mean=True)
            if shape["is_fit"]
            else tb.SquaredNorm(center=h.astype(np.float32))
        )
    problem = tb.Problem(upper=upper, lower=tb.Logistic(A, y, mean=True), domain=domain)
    f, g = value(x), loss(x)
    origin = np.zeros(n)
    scales = max(abs(f), abs(value(origin) - f)), loss(origin) - g
    bend = np.linalg.eigvalsh(hessian)[0]
    kappa = np.linalg.norm(image, 2) ** 2 / (4 * ROWS) / bend
    title = f"{ROWS} x {n}, rank {rank}, kappa {kappa:.0f}, {'fit' if shape['is_fit'] else 'point'}"
    off = abs(value(control) - f) / scales[0]
    return Instance(title, problem, f, g, scales, float(np.linalg.norm(x)), off)


def answered(V: Host, N: Host, image: Host, y: Host, H: Host, h: Host, radius: float) -> Host:
    """The answer in a ball, in the row space V of the data and its complement N.

    If no minimiser of g on R^n is in it, the best point is in the row space, and on the sphere.
    """

    def length(tilt: float) -> float:
        return float(np.linalg.norm(newton(image, y, tilt)[0]))

    if length(1e-9) > radius:
        return np.asarray(
            V @ newton(image, y, bisected(lambda t: length(t) - radius, 1e-9, 1e3))[0]
        )
    z = newton(image, y)[0]
    K, k = N.T @ H @ N, N.T @ (h - H @ (V @ z))
    ties, room = _least(K, k), math.sqrt(max(radius**2 - float(z @ z), 0.0))
    if np.linalg.norm(ties) > room:
        eye = np.eye(len(k))
        tilt = bisected(lambda t: float(np.linalg.norm(_least(K + t * eye, k))) - room, 1e-12, 1e9)
        ties = _least(K + tilt * eye, k)
    return np.asarray(V @ z + N @ ties)


def real(folder: Path) -> Iterator[Instance]:
    """Data that nobody drew, in one-hot codes, whose columns are tied; in Ball(5)."""
    import scipy.sparse as sp
    from sklearn.datasets import load_svmlight_file

    found: list[tuple[str, Any, Host]] = []
    if (folder / "a5a.svm").exists():
        A, y = load_svmlight_file(str(folder / "a5a.svm"))
        found.append(("a5a", sp.csr_array(A), y))
    try:
        from statsmodels import datasets  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        print("statsmodels is not installed: without randhie and fair")
    else:
        for name, column in (("randhie", "mdvis"), ("fair", "affairs")):
            table = getattr(datasets, name).load_pandas().data
            y = np.where(table[column] > table[column].median(), 1.0, -1.0)
            codes = []
            for other in table.columns.drop(column):
                values, places = np.unique(np.asarray(table[other]), return_inverse=True)
                if len(values) > 20:  # by its twentieths
                    edges = np.unique(np.quantile(values[places], np.linspace(0.0, 1.0, 21)[1:-1]))
                    places = np.searchsorted(edges, values[places])
                codes.append(np.eye(int(places.max()) + 1)[places])
            found.append((name, sp.csr_array(np.hstack(codes)), y))
    for name, A, y in found:
        n, rng = A.shape[1], np.random.default_rng(0)
        values, vectors = np.linalg.eigh((A.T @ A).toarray())
        is_seen = values > 1e-9 * values[-1]
        V, N, h = vectors[:, is_seen], vectors[:, ~is_seen], rng.standard_normal(n)
        x = answered(V, N, np.asarray(A @ V), y, np.eye(n), h, 5.0)
        lower, upper = tb.Logistic(A, y, mean=True), tb.SquaredNorm(center=h)
        f, g = upper.value(x), lower.value(x)
        scales = max(abs(f), abs(upper.value(np.zeros(n)) - f)), lower.value(np.zeros(n)) - g
        off = abs(upper.value(V @ (V.T @ x)) - f) / scales[0]
        problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(5.0))
        title = f"{name}, {A.shape[0]} x {n}, rank {V.shape[1]}, |x*| {np.linalg.norm(x):.3g}"
        yield Instance(title, problem, f, g, scales, float(np.linalg.norm(x)), off)


def _least(K: Host, k: Host) -> Host:
    return np.asarray(np.linalg.lstsq(K, k, rcond=None)[0])


def _in_box(V: Host, z: Host, H: Host, h: Host, x: Host) -> tuple[Host, Any]:
    """Between what the nearest minimiser of g to the origin needs, and the answer on R^n."""
    import cvxpy

    cp: Any = cvxpy
    v = cp.Variable(len(x))
    side = cp.Problem(cp.Minimize(cp.norm(v, "inf")), [V.T @ v == z]).solve(solver="CLARABEL")
    width = 0.5 * (float(side) + float(np.max(np.abs(x))))
    root = np.linalg.cholesky(H).T
    target = np.linalg.solve(root.T, h)
    tight = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas")}
    cp.Problem(
        cp.Minimize(cp.sum_squares(root @ v - target)),
        [V.T @ v == z, v <= width, v >= -width],
    ).solve(solver="CLARABEL", **tight)
    return np.asarray(v.value), tb.Box(-width, width)


# -- counting -------------------------------------------------------------------------------------


class Readings:
    """Counts the rows that are read, as the matrix hands them out."""

    def __init__(self, matrix: Any) -> None:
        self.rows, self._inside = 0, False
        self.total: int = matrix.shape[0]
        for name in ("forward", "adjoint", "sweep", "normal"):
            setattr(matrix, name, self._counted(getattr(matrix, name), self.total))
        slices = matrix.slices

        def counted_slices(*args: Any) -> Iterator[Any]:
            for some in slices(*args):
                self.rows += some.entries.shape[0]
                yield some

        matrix.slices = counted_slices

    def _counted(self, product: Callable[..., Any], rows: int) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            outer, self._inside = self._inside, True
            self.rows += 0 if outer else rows
            try:
                return product(*args, **named)
            finally:
                self._inside = outer

        return counted

    @property
    def count(self) -> float:
        """So many times all rows."""
        return self.rows / self.total


class Reached(NamedTuple):
    """When both levels were within the accuracy, to stay there; inf: never."""

    readings: float
    seconds: float
    error: float  # at the end
    spent: float = math.inf  # seconds until then

    @property
    def whole(self) -> float:
        """The seconds that count: until it was there, or all that it was given."""
        return min(self.seconds, self.spent)

    def __str__(self) -> str:
        if math.isinf(self.readings):
            return f"      - ({self.error:.1e} after {self.spent:.2f} s)"
        return f"{self.readings:5.0f} {self.seconds:6.2f} s"


def run(
    instance: Instance,
    method: Any,
    budget: int,
    readings: Readings,
    clock: Callable[[], float] = time.process_time,
    limit: float = math.inf,
) -> Reached:
    """A method by its steps, within a budget of readings; to stay is to stay as long again."""
    problem, start = instance.problem, instance.problem.start()
    method = method.planned(budget)
    method.init(problem, start)  # constants are found once, for all
    before, began = readings.rows, clock()
    at, error = Reached(math.inf, math.inf, math.inf), math.inf
    with arrays.quiet():
        work = Run(problem, method, start, certifies=False)
        count = 0.0
        while count < min(budget, 2.0 * at.readings + 100.0) and not work.report.finished.why:
            if clock() - began > limit or not work.step():
                break
            count, now = (readings.rows - before) / readings.total, clock()
            error = instance.errors(work.state.upper_value, work.state.lower_value)
            if error > ACCURACY:
                at = Reached(math.inf, math.inf, math.inf)
            elif math.isinf(at.readings):
                at = Reached(count, now - began, 0.0)
    return at._replace(error=error, spent=clock() - began)


def solved(
    instance: Instance,
    method: str,
    readings: Readings,
    clock: Callable[[], float] = time.process_time,
    limit: float = 120.0,
    rtol: float = 1e-4,
) -> Reached:
    """A method to its own end."""
    before, began = readings.rows, clock()
    result = tb.solve(instance.problem, method, max_time=limit, rtol=rtol)
    seconds = clock() - began
    error = instance.errors(result.upper_value, result.lower_value)
    count = (readings.rows - before) / readings.total
    return Reached(count if error <= ACCURACY else math.inf, seconds, error, seconds)


def in_ball(instance: Instance) -> Instance:
    """The same in Ball(2 |x*|), which the instance states."""
    upper, lower = instance.problem.upper, instance.problem.lower
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0 * instance.size))
    return instance._replace(problem=problem)


def field(instance: Instance, budget: int, readings: Readings) -> Iterator[tuple[str, Reached]]:
    """The other methods of finite sums; SVRG with a fixed eta: rounds that never end."""
    for method in (tb.IRFSCG(), tb.IRSCG(), tb.SBCGF()):
        yield method.name, run(in_ball(instance), method, budget, readings)
    unit = instance.problem.lower.lipschitz / instance.problem.upper.lipschitz
    for share in (1e-2, 1e-4):
        fixed = tb.BregmanSVRG(eta_0=share * unit, accuracy=1e-300)
        yield f"svrg {share:g}", run(instance, fixed, budget, readings)


def proved(instance: Instance, readings: Readings) -> tuple[float, str]:
    """The readings until br-svrg is certified, weakly, in a ball that the instance states."""
    problem, before = in_ball(instance).problem, readings.rows
    result = tb.solve(problem, "br-svrg", rtol=1e-2, criterion="weak", max_iter=150)
    wrong = result.upper_value - instance.upper > 1e-2 * max(
        abs(result.upper_value), instance.scales[0], abs(instance.upper)
    )
    count = (readings.rows - before) / readings.total
    return count, f"{result.status}{' WRONGLY' if result.status == 'certified' and wrong else ''}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, nargs="*", default=range(len(SHAPES)))
    options.add_argument("--set", choices=("space", "ball", "low-ball", "box"), default="space")
    options.add_argument("--rows", choices=("", "sparse", "float32", "sorted"), default="")
    options.add_argument("--budget", type=int, default=BUDGET)
    options.add_argument("--proof", action="store_true")
    options.add_argument("--field", action="store_true")
    options.add_argument("--alone", action="store_true", help="br-svrg and primal-dual only")
    options.add_argument("--data", type=Path)
    given = options.parse_args()
    shares, times, controls, proofs = [], [], [], []
    instances = (drawn(given.seed, index, given.set, given.rows) for index in given.only)
    for index, instance in enumerate(instances if given.data is None else real(given.data)):
        readings = Readings(instance.problem.lower.matrix)
        print(f"{index} {instance.title}; g alone: f off by {instance.control:.2f}", flush=True)
        controls.append(instance.control)
        if given.proof:
            count, word = proved(instance, readings)
            proofs.append(count <= 300 and word == "certified")
            print(f"    {word} after {count:.0f} readings", flush=True)
            continue
        ours = run(instance, tb.BregmanSVRG(), given.budget, readings)
        print(f"    br-svrg     {ours}", flush=True)
        theirs = run(instance, tb.PrimalDual(), given.budget, readings)
        print(f"    primal-dual {theirs}", flush=True)
        shares.append(ours.readings / min(theirs.readings, given.budget))
        times.append(ours.seconds / theirs.whole)
        for name, reached in field(instance, given.budget, readings) if given.field else ():
            print(f"    {name:11s} {reached}", flush=True)
        for name in () if given.alone else ("exact", "auto"):
            print(f"    {name:11s} {solved(instance, name, readings)}", flush=True)
    if given.proof:
        print(f"certified within 300 readings: {sum(proofs)} of {len(proofs)}")
        return int(sum(proofs) < len(proofs) - 1)
    middle, worst = statistics.median(shares), max(shares)
    quick = sum(share <= 0.6 for share in times)
    print(f"share of primal-dual's readings: median {middle:.2f}, worst {worst:.2f}; ", end="")
    print(f"at most 0.6 of its seconds on {quick} of {len(times)}")
    asked = (0.25, 0.5) if given.set == "space" and not given.rows else (0.35, math.inf)
    asked = asked if given.data is None else (0.5, math.inf)
    is_met = middle <= asked[0] and worst <= asked[1]
    if asked[0] == 0.25:
        is_met = is_met and quick >= 4 * len(times) / 6 and min(controls) > 0.1
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
