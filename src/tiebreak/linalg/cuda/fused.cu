// All that a step asks of a dense matrix from one reading of it: `fused.py` says what, and why.
//
// One team (a cluster of CLUSTER blocks, each with a slice of the columns) works on one row at a
// time. The THREADS workers of a block hold their columns of the points and of the gradients in
// registers and keep SLOTS rows in shared memory; every worker copies, reads and overwrites only
// its own columns there, so the rows need no barrier. One more warp, the clerk, turns the products
// of a row into images, losses and weights. At turn k the workers multiply row k and add row
// k - LAG to the gradients, while the clerk has row k - LAG + 1: one barrier per turn, and nobody
// waits for the clerk's long chain of sums and exponentials.
//
// `kernel.py` compiles this file at run time and defines: REAL (float or double), FRESH (points, 1
// or 2), SLOPES (gradients, 0 to 2), and what `tiling.py` chooses for a matrix: COPY (bytes of one
// asynchronous copy), WIDE (entries in them), THREADS, ITEMS (copies of a worker per row), BLOCKS
// (on a multiprocessor), CLUSTER, SLOTS and LAG.

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
