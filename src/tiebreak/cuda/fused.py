"""All that a step asks of a dense matrix on an NVIDIA GPU, from one reading of the matrix.

A step wants the images ``A x`` of a few points, their losses and the gradients ``A' w`` of some.
By plain calls every product reads ``A`` from memory again, and on a GPU that reading is nearly all
of the time. A gradient needs of a row only its own weight, and the weight needs only that row:

    row a_i  ->  a_i · p  ->  images  ->  weights w_i  ->  G += w_i a_i,

so one reading is enough if the row stays in shared memory until its weight is known. `sweep` does
this by a CUDA kernel, compiled at run time for PyTorch tensors and CuPy arrays; `applies` says for
which matrices. `plain` is the same by plain calls, which tests and benchmarks hold it against.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from tiebreak.arrays import Array, namespace

KINDS = ("least-squares", "logistic")
MAX_FRESH, MAX_CARRIED, MAX_ASKED, MAX_SLOPES = 2, 3, 4, 2

WORTHWHILE_ROW = 4096  # bytes: below, the kernel waits for its barriers instead of the memory
WORTHWHILE_MATRIX = 2**25  # bytes: below, launching takes longer than reading


class Swept(NamedTuple):
    """What one reading of A gives; all of it on the device of A."""

    images: Array  # J x m: i_j = Σ_k recipe[j, k] carried_k + Σ_l recipe[j, K + l] A p_l
    products: Array  # len(fresh) x m: A p_l
    losses: Array  # J numbers in float64: Σ ½ (i_j - b)², or Σ log(1 + exp(-y i_j))
    gradients: Array  # slopes x n: A' w_j, w_j = i_j - b, or -y / (1 + exp(y i_j))


def plain(
    A: Array,
    fresh: Sequence[Array],
    carried: Sequence[Array],
    recipe: Any,
    target: Array,
    kind: str,
    slopes: int,
) -> Swept:
    """The same as `sweep`, by plain calls: ``len(fresh) + slopes`` readings of the matrix."""
    weights = _checked(A, fresh, carried, recipe, target, kind, slopes)
    xp = namespace(A)
    products = [A @ p for p in fresh]
    parts = [*carried, *products]
    images = []
    for row in weights:
        image = xp.zeros_like(target)
        for weight, part in zip(row.tolist(), parts, strict=True):
            if weight:
                image = image + weight * part
        images.append(image)
    losses = []
    gradients = []
    for j, image in enumerate(images):
        if kind == "logistic":
            margin = target * image
            # log(1 + exp(-t)) = max(-t, 0) + log1p(exp(-|t|)): never exp of anything positive
            small = xp.exp(-xp.abs(margin))
            hinge = (xp.abs(margin) - margin) / 2
            terms = xp.astype(xp.log1p(small), xp.float64) + xp.astype(hinge, xp.float64)
            ones = xp.ones_like(small)
            slope = -target * xp.where(margin > 0, small, ones) / (1 + small)
        else:
            slope = image - target
            terms = xp.astype(slope, xp.float64) ** 2 / 2
        losses.append(xp.sum(terms))
        if j < slopes:
            gradients.append(A.T @ slope)
    device = array_api_compat.device(A)
    none = xp.empty((0, A.shape[1]), dtype=A.dtype, device=device)
    return Swept(
        xp.stack(images),
        xp.stack(products),
        xp.stack(losses),
        xp.stack(gradients) if gradients else none,
    )


def applies(A: Array) -> bool:
    """Is A a matrix that `sweep` can read, and large enough for that to be faster than `plain`?

    A row-major float32 or float64 matrix of PyTorch or CuPy on a Hopper GPU or a newer one, with
    rows that fit (eight multiprocessors share one row at most), where NVRTC compiles the kernel:
    the first time for rows of a length this takes a second.
    """
    try:
        m, n = A.shape
        size = int(n) * int(A.dtype.itemsize)
        if size < WORTHWHILE_ROW or size * int(m) < WORTHWHILE_MATRIX:
            return False
        shape = _shape(A)
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError):
        return False
    with _current(A):
        return _works(shape)


def fits(carried: int, asked: int, slopes: int) -> bool:
    """Can one `sweep` do so much?"""
    return carried <= MAX_CARRIED and asked <= MAX_ASKED and slopes <= MAX_SLOPES


def sweep(
    A: Array,
    fresh: Sequence[Array],
    carried: Sequence[Array],
    recipe: Any,
    target: Array,
    kind: str,
    slopes: int,
    scale: float = 1.0,
) -> Swept:
    """Images, products, losses and gradients from one reading of A; see `Swept` for the formulas.

    ``fresh``: one or two new points (length n); ``carried``: up to three known images (length m);
    ``recipe``: J x (K + len(fresh)) numbers on the host, J <= 4; ``target``: b, or y of -1 and 1;
    ``slopes``: the gradients of the first 0, 1 or 2 asked points are wanted, times ``scale``.

    Everything is queued on the library's current stream: nothing here waits for the device. The
    outcome is the same in every run: partial sums have their places, and no atomics are used.
    """
    weights = _checked(A, fresh, carried, recipe, target, kind, slopes)
    shape = _shape(A)
    xp = namespace(A)
    device = array_api_compat.device(A)
    m, n = (int(k) for k in A.shape)
    with _current(A) as stream:
        kernel = _kernel(shape, len(fresh), slopes)
        # all vectors contiguous, and kept until the kernel is queued
        points, known = [_flat(p, A) for p in fresh], [_flat(c, A) for c in carried]
        goal = _flat(target, A)
        asked = len(weights)
        teams = max(1, min(kernel.teams, m))
        # Few allocations, for each of them costs the host some microseconds.
        long = xp.empty((asked + len(fresh), m), dtype=A.dtype, device=device)
        images, products = long[:asked, :], long[asked:, :]
        gradients = xp.empty((slopes, n), dtype=A.dtype, device=device)
        sums = xp.empty(asked * (1 + teams) + teams * slopes * n, dtype=xp.float64, device=device)
        losses = sums[:asked]
        team_losses = _pointer(sums) + 8 * asked
        team_gradients = team_losses + 8 * asked * teams
        job = _Job(rows=m, columns=n, carried=len(known), asked=asked, teams=teams, scale=scale)
        job.matrix, job.target, job.logistic = _pointer(A), _pointer(goal), kind == "logistic"
        job.images, job.products = _pointer(images), _pointer(products)
        job.losses, job.gradients = team_losses, team_gradients
        job.all_losses, job.all_gradients = _pointer(losses), _pointer(gradients)
        job.fresh[: len(points)] = [_pointer(p) for p in points]
        job.known[: len(known)] = [_pointer(c) for c in known]
        for j, row in enumerate(weights):
            job.recipe[j * _PARTS : j * _PARTS + len(known)] = row[: len(known)].tolist()
            first = j * _PARTS + MAX_CARRIED
            job.recipe[first : first + len(points)] = row[len(known) :].tolist()
        kernel(job, stream)
    return Swept(images, products, losses, gradients)


def _checked(
    A: Array,
    fresh: Sequence[Array],
    carried: Sequence[Array],
    recipe: Any,
    target: Array,
    kind: str,
    slopes: int,
) -> np.ndarray[Any, Any]:
    """The recipe as a float64 matrix on the host; ValueError if the shapes do not fit."""
    m, n = A.shape
    weights = np.asarray(recipe, dtype=np.float64)
    if kind not in KINDS:
        raise ValueError(f"kind is one of {KINDS}, not {kind!r}")
    if not 1 <= len(fresh) <= MAX_FRESH or len(carried) > MAX_CARRIED:
        raise ValueError(f"1 to {MAX_FRESH} fresh points and up to {MAX_CARRIED} carried images")
    if weights.ndim != 2 or not 1 <= weights.shape[0] <= MAX_ASKED:
        raise ValueError(f"recipe is a matrix of 1 to {MAX_ASKED} rows")
    if weights.shape[1] != len(carried) + len(fresh):
        raise ValueError("recipe has one column for every carried image and every fresh point")
    if not 0 <= slopes <= min(MAX_SLOPES, weights.shape[0]):
        raise ValueError(f"slopes is at most {MAX_SLOPES} and at most the number of asked points")
    if any(tuple(p.shape) != (n,) for p in fresh):
        raise ValueError(f"a fresh point has length {n}")
    if any(tuple(v.shape) != (m,) for v in (*carried, target)):
        raise ValueError(f"carried images and target have length {m}")
    if any(v.dtype != A.dtype for v in (*fresh, *carried, target)):
        raise ValueError("all vectors have the dtype of the matrix")
    return weights


# --- the kernel

# One team (a cluster of CLUSTER blocks, each with a slice of the columns) works on one row at a
# time. The THREADS workers of a block hold their columns of the points and of the gradients in
# registers and keep SLOTS rows in shared memory; every worker copies, reads and overwrites only
# its own columns there, so the rows need no barrier. One more warp, the clerk, turns the products
# of a row into images, losses and weights. At turn k the workers multiply row k and add row k - 2
# to the gradients, while the clerk has row k - 1: one barrier per turn, and nobody waits for the
# clerk's long chain of sums and exponentials.
SOURCE = r"""
struct Job {
    const REAL *matrix, *target, *fresh[2], *known[3];
    REAL *images, *products;
    double *gradients, *losses;
    REAL *all_gradients;
    double *all_losses;
    double recipe[4 * 5];  // row j: of the known images (3), of the fresh products (2)
    double scale;
    long long rows, columns, carried, asked, logistic, teams;
};

struct __align__(WIDE * sizeof(REAL)) Pack { REAL of[WIDE]; };
struct __align__(FRESH * sizeof(double)) Dots { double of[FRESH]; };

#define WARPS (THREADS / 32)
#define SPREAD (CLUSTER * WARPS > 16 ? 32 : CLUSTER * WARPS > 8 ? 16 : CLUSTER * WARPS > 4 ? 8 : 4)
#define DESKS (CLUSTER == 1 ? 2 : LAG == 2 ? 4 : 8)
#define EVERY _Pragma("unroll")
#define FEW (sizeof(REAL) == 8 ? 1 : 16)  // rows that are added before float64 takes over

__device__ __forceinline__ unsigned place(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// A copy from the matrix to shared memory that nobody waits for; zeros for columns that are not.
__device__ __forceinline__ void fetch(Pack *to, const REAL *from, bool real) {
    const int size = real ? (int)sizeof(Pack) : 0;
#if COPY == 16
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :: "r"(place(to)), "l"(from), "r"(size) : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                 :: "r"(place(to)), "l"(from), "r"(size), "n"(COPY) : "memory");
#endif
}

#define STORE "st.async.shared::cluster.mbarrier::complete_tx::bytes"

#if CLUSTER > 1
// The blocks of a team send each other their dot products. A barrier of the team would wait for
// the clerk's writes to global memory in every turn; a count of the bytes that came does not.
typedef unsigned long long Count;

__device__ __forceinline__ void send(const Dots *to, Count *count, int rank, Dots dots) {
    unsigned there, bell;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place(to)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bell) : "r"(place(count)), "r"(rank));
#if FRESH == 1
    asm volatile(STORE ".f64 [%0], %1, [%2];"
                 :: "r"(there), "d"(dots.of[0]), "r"(bell) : "memory");
#else
    asm volatile(STORE ".v2.f64 [%0], {%1, %2}, [%3];"
                 :: "r"(there), "d"(dots.of[0]), "d"(dots.of[1]), "r"(bell) : "memory");
#endif
}

__device__ __forceinline__ void receive(Count *count, int lane, int phase) {
    if (lane == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(place(count)), "r"(CLUSTER * WARPS * (int)sizeof(Dots)) : "memory");
    int done = 0;
    while (!done)
        asm volatile("{\n .reg .pred p;\n"
                     " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     " selp.b32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(place(count)), "r"(phase) : "memory");
    __syncwarp();
}
#define TEAM __cluster_dims__(CLUSTER, 1, 1)
#else
#define TEAM
#endif

extern "C" __global__ void TEAM __launch_bounds__(THREADS + 32, BLOCKS) sweep(
    const __grid_constant__ Job job) {
    extern __shared__ __align__(16) unsigned char memory[];
    // The dot products of row k are at desk k % DESKS until the clerk has read them. One block may
    // be ahead of another by as many turns as its clerk is behind: 2 LAG desks are enough.
    __shared__ Dots partial[DESKS][CLUSTER * WARPS];
    __shared__ double weights[2][2];  // of row k: [k & 1]

    const int rank = blockIdx.x % CLUSTER, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long team = blockIdx.x / CLUSTER, teams = gridDim.x / CLUSTER;
    const long long m = job.rows, n = job.columns;
    const int count = (int)((m - team + teams - 1) / teams);  // rows of this team

#if CLUSTER > 1
    __shared__ Count arrived[DESKS];
    if (threadIdx.x == 0) {
        for (int k = 0; k < DESKS; ++k)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                         :: "r"(place(&arrived[k])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive;\n barrier.cluster.wait;" ::: "memory");
#endif

    if (warp == WARPS) {  // the clerk; lane j has asked point j
        double recipe[5], loss = 0.0;
        EVERY for (int k = 0; k < 5; ++k)
            recipe[k] = lane < job.asked ? job.recipe[5 * lane + k] : 0.0;
        // Lane i: of row i of these 32, and of the next 32, which are read so long before.
        REAL known[3] = {0, 0, 0}, target = 0, next_known[3] = {0, 0, 0}, next_target = 0;
        auto read = [&](int k) {
            if (k + lane >= count) return;
            const long long row = team + (k + lane) * teams;
            EVERY for (int i = 0; i < 3; ++i)
                if (i < job.carried) next_known[i] = job.known[i][row];
            next_target = job.target[row];
        };
        read(0);
        for (int turn = 0; turn < count + LAG; ++turn) {
            const int k = turn - (LAG - 1);
            const long long row = team + k * teams;
            if (0 <= k && k < count) {
                if (k % 32 == 0) {
                    EVERY for (int i = 0; i < 3; ++i) known[i] = next_known[i];
                    target = next_target;
                    read(k + 32);
                }
                double image = 0.0;
                EVERY for (int i = 0; i < 3; ++i) {
                    const REAL value = __shfl_sync(~0u, known[i], k % 32);
                    if (recipe[i] != 0.0) image += recipe[i] * (double)value;
                }
                const REAL goal = __shfl_sync(~0u, target, k % 32);
#if CLUSTER > 1
                receive(&arrived[k % DESKS], lane, (k / DESKS) & 1);
#endif
                double sums[FRESH];
                EVERY for (int l = 0; l < FRESH; ++l) sums[l] = 0.0;
                EVERY for (int i = 0; i < CLUSTER * WARPS; i += 32)
                    if (i + lane < CLUSTER * WARPS) {
                        const Dots dots = partial[k % DESKS][i + lane];
                        EVERY for (int l = 0; l < FRESH; ++l) sums[l] += dots.of[l];
                    }
                EVERY for (int l = 0; l < FRESH; ++l) {
                    EVERY for (int step = SPREAD / 2; step; step /= 2)
                        sums[l] += __shfl_xor_sync(~0u, sums[l], step);
                    if (recipe[3 + l] != 0.0) image += recipe[3 + l] * sums[l];
                    if (rank == 0 && lane == 0) job.products[l * m + row] = (REAL)sums[l];
                }
                double weight;
                if (job.logistic) {  // log(1 + exp(-t)) = max(-t, 0) + log1p(exp(-|t|))
                    const double margin = (double)goal * image, size = fabs(margin);
                    const double small = exp(-size);
                    weight = -(double)goal * (margin > 0 ? small : 1.0) / (1.0 + small);
                    loss += log1p(small) + (margin < 0 ? size : 0.0);
                } else {
                    weight = image - (double)goal;
                    loss += 0.5 * weight * weight;
                }
                if (lane < SLOPES) weights[k & 1][lane] = weight;
                if (rank == 0 && lane < job.asked) job.images[lane * m + row] = (REAL)image;
            }
            __syncthreads();
        }
        if (rank == 0 && lane < job.asked) job.losses[team * job.asked + lane] = loss;
        return;
    }

    // A worker: pack v of a row has the columns first + v * THREADS * WIDE, ..., up to `end`.
    const long long slice = (n + CLUSTER * WIDE - 1) / (CLUSTER * WIDE) * WIDE;
    const long long first = rank * slice + threadIdx.x * WIDE;
    const long long end = (rank + 1) * slice < n ? (rank + 1) * slice : n;
    Pack *slots = (Pack *)memory + threadIdx.x;
    Pack points[FRESH][ITEMS], brief[SLOPES ? SLOPES : 1][ITEMS];
    double sums[SLOPES ? SLOPES : 1][ITEMS][WIDE];
    EVERY for (int v = 0; v < ITEMS; ++v)
        EVERY for (int e = 0; e < WIDE; ++e) {
            const long long column = first + v * THREADS * WIDE + e;
            EVERY for (int l = 0; l < FRESH; ++l)
                points[l][v].of[e] = column < end ? job.fresh[l][column] : (REAL)0;
            EVERY for (int s = 0; s < SLOPES; ++s) sums[s][v][e] = brief[s][v].of[e] = 0;
        }

    const REAL *source = job.matrix + team * n + first;  // of the next row to fetch
    auto fetch_row = [&](int k, int slot) {
        if (k < count)
            EVERY for (int v = 0; v < ITEMS; ++v) {
                const bool real = first + v * THREADS * WIDE < end;
                fetch(slots + (slot * ITEMS + v) * THREADS,
                      real ? source + v * THREADS * WIDE : job.matrix, real);
            }
        source += teams * n;
        asm volatile("cp.async.commit_group;" ::: "memory");  // an empty one too: they are counted
    };
    for (int k = 0; k < SLOTS - LAG; ++k) fetch_row(k, k);

    int here = 0, back = SLOTS - LAG;  // the slots of row `turn` and of row `turn - LAG`
    for (int turn = 0; turn < count + LAG; ++turn) {
        if (turn < count) {
            asm volatile("cp.async.wait_group %0;" :: "n"(SLOTS - LAG - 1) : "memory");
            Dots dots;
            REAL few[FRESH];  // a short sum in the precision of the matrix
            EVERY for (int l = 0; l < FRESH; ++l) dots.of[l] = few[l] = 0;
            EVERY for (int v = 0; v < ITEMS; ++v) {
                const Pack pack = slots[(here * ITEMS + v) * THREADS];
                EVERY for (int l = 0; l < FRESH; ++l) {
                    EVERY for (int e = 0; e < WIDE; ++e) few[l] += pack.of[e] * points[l][v].of[e];
                    if (v % 2 || v == ITEMS - 1) dots.of[l] += few[l], few[l] = 0;
                }
            }
            EVERY for (int l = 0; l < FRESH; ++l)
                EVERY for (int step = 16; step; step /= 2)
                    dots.of[l] += __shfl_xor_sync(~0u, dots.of[l], step);
            Dots *desk = &partial[turn % DESKS][rank * WARPS + warp];
#if CLUSTER > 1
            if (lane < CLUSTER) send(desk, &arrived[turn % DESKS], lane, dots);
#else
            if (lane == 0) *desk = dots;
#endif
        }
        if (turn >= LAG) {
            REAL weight[SLOPES ? SLOPES : 1];
            EVERY for (int s = 0; s < SLOPES; ++s) weight[s] = (REAL)weights[(turn - LAG) & 1][s];
            EVERY for (int v = 0; v < ITEMS; ++v) {
                const Pack pack = slots[(back * ITEMS + v) * THREADS];
                EVERY for (int e = 0; e < WIDE; ++e)
                    EVERY for (int s = 0; s < SLOPES; ++s)
                        brief[s][v].of[e] += weight[s] * pack.of[e];
            }
            if (turn % FEW == 0 || turn == count + LAG - 1)
                EVERY for (int v = 0; v < ITEMS; ++v)
                    EVERY for (int e = 0; e < WIDE; ++e)
                        EVERY for (int s = 0; s < SLOPES; ++s) {
                            sums[s][v][e] += brief[s][v].of[e];
                            brief[s][v].of[e] = 0;
                        }
        }
        fetch_row(turn + SLOTS - LAG, back);
        here = here + 1 == SLOTS ? 0 : here + 1;
        back = back + 1 == SLOTS ? 0 : back + 1;
        __syncthreads();
    }
    EVERY for (int s = 0; s < SLOPES; ++s)
        EVERY for (int v = 0; v < ITEMS; ++v)
            EVERY for (int e = 0; e < WIDE; ++e) {
                const long long column = first + v * THREADS * WIDE + e;
                if (column < end)
                    job.gradients[(team * SLOPES + s) * n + column] = sums[s][v][e];
            }
}

// The sums over the teams, in float64.
extern "C" __global__ void fold(const __grid_constant__ Job job) {
    const long long i = blockIdx.x * 128LL + threadIdx.x, width = SLOPES * job.columns;
    double sum = 0.0, loss = 0.0;
    if (i < width) {
        _Pragma("unroll 16")
        for (long long team = 0; team < job.teams; ++team)
            sum += job.gradients[team * width + i];
        job.all_gradients[i] = (REAL)(job.scale * sum);
    }
    if (i < job.asked) {
        _Pragma("unroll 16")
        for (long long team = 0; team < job.teams; ++team)
            loss += job.losses[team * job.asked + i];
        job.all_losses[i] = loss;
    }
}
"""

_PARTS = MAX_CARRIED + MAX_FRESH


class _Job(ctypes.Structure):
    """The struct Job of the kernel; every field has eight bytes."""

    _fields_ = (
        ("matrix", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
        ("fresh", ctypes.c_void_p * MAX_FRESH),
        ("known", ctypes.c_void_p * MAX_CARRIED),
        ("images", ctypes.c_void_p),
        ("products", ctypes.c_void_p),
        ("gradients", ctypes.c_void_p),
        ("losses", ctypes.c_void_p),
        ("all_gradients", ctypes.c_void_p),
        ("all_losses", ctypes.c_void_p),
        ("recipe", ctypes.c_double * (MAX_ASKED * _PARTS)),
        ("scale", ctypes.c_double),
        ("rows", ctypes.c_longlong),
        ("columns", ctypes.c_longlong),
        ("carried", ctypes.c_longlong),
        ("asked", ctypes.c_longlong),
        ("logistic", ctypes.c_longlong),
        ("teams", ctypes.c_longlong),
    )


class _Shape(NamedTuple):
    """How the kernel is cut to a matrix."""

    device: int
    arch: str
    double: bool
    copy: int  # bytes of one asynchronous copy: 16, if the rows are aligned to that
    threads: int  # workers of a block
    items: int  # copies of a worker per row
    blocks: int  # on a multiprocessor
    cluster: int  # blocks that share a row
    slots: int  # rows in shared memory
    lag: int  # turns from the products of a row to its part in the gradients
    teams: int  # clusters in all, as many as the multiprocessors have places for

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block, for the rows."""
        return self.slots * self.items * self.threads * self.copy


# The workers of a block, how many entries of a row each of them can take (it has them of two points
# and of two sums in its registers), and the blocks on a multiprocessor. Few workers with many
# columns are faster than many with few; where the rows are short, several blocks hide each other's
# barriers.
_CUTS = ((96, 12, 4), (224, 12, 2), (224, 24, 1))
_SLOTS = 8  # more rows ahead than these gain nothing


def _cut(n: int, wide: int) -> tuple[int, int, int, int]:
    """Threads, items, blocks and cluster for rows of n entries, ``wide`` of them in a copy.

    ValueError if they do not fit.
    """
    for cluster in (1, 2, 4, 8):
        copies = -(-n // (cluster * wide))
        for threads, most, blocks in _CUTS:
            items = -(-copies // threads)
            if items * wide <= most and (cluster == 1 or blocks == 1):
                return threads, max(1, items), blocks, cluster
    raise ValueError(f"rows of {n} entries are too long")


def _shape(A: Array) -> _Shape:
    """The kernel's cut for the matrix A; ValueError if there is none."""
    if array_api_compat.is_torch_array(A):
        good = A.is_cuda and A.is_contiguous() and sys.modules["torch"].version.hip is None
        device = A.get_device()
    elif array_api_compat.is_cupy_array(A):
        good, device = A.flags.c_contiguous, A.device.id
    else:
        good, device = False, 0
    kind = str(A.dtype).rpartition(".")[2]
    if not good or A.ndim != 2 or kind not in ("float32", "float64"):
        raise ValueError("A is no row-major float32 or float64 matrix on an NVIDIA GPU")
    return _shape_of(device, kind == "float64", int(A.shape[1]), _pointer(A) % 16)


@lru_cache
def _shape_of(device: int, double: bool, n: int, offset: int) -> _Shape:
    """The cut for rows of n entries, the first of them ``offset`` bytes from a multiple of 16."""
    itemsize = 8 if double else 4
    copy = next(k for k in (16, 8, 4) if offset % k == 0 and n * itemsize % k == 0)
    threads, items, blocks, cluster = _cut(n, copy // itemsize)
    card = _card(device)
    if card.major < 9:
        raise ValueError("clusters of blocks need a Hopper GPU or a newer one")
    # Of every block, 1 KiB belongs to the system and up to 8 KiB have the dot products.
    room = (card.shared + 1024) // blocks - 9 * 1024
    slots = min(_SLOTS, room // (items * threads * copy))
    if slots < 4:
        raise ValueError("the shared memory is too small")
    teams = card.multiprocessors * blocks // cluster
    arch = f"sm_{card.major}{card.minor}"
    # What many blocks send each other takes a while: one turn more, if there is room for its row.
    lag = 3 if cluster > 2 and slots > 5 else 2
    return _Shape(device, arch, double, copy, threads, items, blocks, cluster, slots, lag, teams)


class _Card(NamedTuple):
    """What the kernel asks of a GPU."""

    major: int
    minor: int
    multiprocessors: int
    shared: int  # bytes of shared memory that a block can have


@lru_cache
def _card(device: int) -> _Card:
    """The attributes of a GPU, by their numbers in the driver's interface."""
    driver = _driver()
    handle, value = ctypes.c_int(), ctypes.c_int()
    _check(driver.cuInit(0))
    _check(driver.cuDeviceGet(ctypes.byref(handle), device))
    found = []
    for attribute in (75, 76, 16, 97):
        _check(driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle))
        found.append(value.value)
    return _Card(*found)


class _Launch(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class _Kernel:
    """The kernel, compiled for a shape and loaded on the current device."""

    def __init__(self, shape: _Shape, fresh: int, slopes: int) -> None:
        self.shape = shape
        self.slopes = slopes
        self.teams = shape.teams
        wide = shape.copy // (8 if shape.double else 4)
        values = {
            "REAL": "double" if shape.double else "float",
            "COPY": shape.copy,
            "WIDE": wide,
            "THREADS": shape.threads,
            "ITEMS": shape.items,
            "BLOCKS": shape.blocks,
            "CLUSTER": shape.cluster,
            "SLOTS": shape.slots,
            "LAG": shape.lag,
            "FRESH": fresh,
            "SLOPES": slopes,
        }
        macros = [f"-D{name}={value}" for name, value in values.items()]
        image = _compile([f"--gpu-architecture={shape.arch}", "--std=c++17", *macros])
        driver = _driver()
        module, self.sweep, self.fold = (ctypes.c_void_p() for _ in range(3))
        _check(driver.cuModuleLoadData(ctypes.byref(module), image))
        _check(driver.cuModuleGetFunction(ctypes.byref(self.sweep), module, b"sweep"))
        _check(driver.cuModuleGetFunction(ctypes.byref(self.fold), module, b"fold"))
        most_dynamic_shared = 8  # the attribute's number
        _check(driver.cuFuncSetAttribute(self.sweep, most_dynamic_shared, shape.shared))
        if shape.cluster > 1:  # the parts that a GPU is made of may not be multiples of a cluster
            most = ctypes.c_int()
            launch = _Launch(shape.cluster, 1, 1, shape.threads + 32, 1, 1, shape.shared)
            query = driver.cuOccupancyMaxActiveClusters
            _check(query(ctypes.byref(most), self.sweep, ctypes.byref(launch)))
            self.teams = max(1, min(shape.teams, most.value))

    def __call__(self, job: _Job, stream: int) -> None:
        """Queue one pass and the sums over its teams; the job is copied at once."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(job))
        launch = _driver().cuLaunchKernel
        queue = ctypes.c_void_p(stream)
        shape = self.shape
        size = (job.teams * shape.cluster, 1, 1, shape.threads + 32, 1, 1, shape.shared)
        _check(launch(self.sweep, *size, queue, arguments, None))
        entries = max(self.slopes * job.columns, job.asked)
        _check(launch(self.fold, -(-entries // 128), 1, 1, 128, 1, 1, 0, queue, arguments, None))


_kernel = lru_cache(_Kernel)


@lru_cache
def _works(shape: _Shape) -> bool:
    """Can the kernel be compiled and loaded here?"""
    try:
        _kernel(shape, 1, 1)
    except (OSError, RuntimeError):
        return False
    return True


@lru_cache
def _driver() -> Any:
    """The driver's library; OSError if there is none."""
    return ctypes.CDLL("libcuda.so.1")


@lru_cache
def _nvrtc() -> Any:
    """NVIDIA's run-time compiler, which PyTorch and CuPy bring along; OSError if not found.

    The packages from PyPI keep it in a folder that the loader does not know. The driver cannot
    load what a compiler of a later version than its own makes.
    """
    version = ctypes.c_int()
    _check(_driver().cuDriverGetVersion(ctypes.byref(version)))
    names = [f"libnvrtc.so.{major}" for major in range(version.value // 1000, 11, -1)]
    folders = getattr(sys.modules.get("nvidia"), "__path__", None) or [
        os.path.join(folder, "nvidia") for folder in sys.path
    ]
    found = [
        path
        for name in names
        for folder in folders
        for path in glob.glob(os.path.join(folder, "*", "lib", name))
    ]
    for name in (*names, *found, "libnvrtc.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError("NVRTC was not found")


def _compile(options: list[str]) -> bytes:
    """The kernel's machine code; RuntimeError with the compiler's words if there is none."""
    nvrtc = _nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def check(status: int) -> None:
        if status:
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(max(1, size.value))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC error {status}: {log.value.decode()}")

    create = nvrtc.nvrtcCreateProgram
    check(create(ctypes.byref(program), SOURCE.encode(), b"fused.cu", 0, None, None))
    try:
        words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        check(nvrtc.nvrtcCompileProgram(program, len(options), words))
        check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        check(nvrtc.nvrtcGetCUBIN(program, image))
        return image.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _check(status: int) -> None:
    """RuntimeError for a failed call of the driver."""
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA error {status}: {(text.value or b'unknown').decode()}")


# --- the two libraries


@contextlib.contextmanager
def _current(A: Array) -> Iterator[int]:
    """Makes the device of A the current one; gives its current stream."""
    if array_api_compat.is_torch_array(A):
        cuda, device = sys.modules["torch"].cuda, A.get_device()
        with cuda.device(device):
            yield cuda.current_stream(device).cuda_stream
    else:
        with A.device:
            yield sys.modules["cupy"].cuda.get_current_stream().ptr


def _pointer(x: Array) -> int:
    """The address of an array of either library."""
    return int(x.data_ptr() if hasattr(x, "data_ptr") else x.data.ptr)


def _flat(x: Array, A: Array) -> Array:
    """A vector of the library of A with its entries side by side; a copy only if they are not."""
    if type(x) is not type(A) or x.device != A.device:
        raise ValueError("all vectors are on the device of the matrix")
    return x.contiguous() if hasattr(x, "contiguous") else sys.modules["cupy"].ascontiguousarray(x)
