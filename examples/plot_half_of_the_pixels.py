"""Reconstruct a picture from half of its blurred pixels

A camera is out of focus, and every second pixel of its sensor is dead. Infinitely many pictures
explain the readings that are left. Objects have surfaces and edges: among all pictures that explain
the readings, we want the one of least total variation.
"""

# %%
# The picture has 256 x 256 pixels. The blur and its adjoint are given as functions: we never build
# the matrix, which would have 32,768 rows and 65,536 columns.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import correlate1d
from scipy.sparse.linalg import LinearOperator

import tiebreak as tb

m = 256
truth = np.zeros((m, m))
truth[m // 4 : m // 2, m // 4 : 3 * m // 4] = 1.0
truth[m // 2 : 3 * m // 4, m // 3 : m // 2] = 0.5
alive = np.random.default_rng(0).permutation(m * m)[: m * m // 2]
kernel = np.exp(-0.5 * np.arange(-3, 4) ** 2)
kernel /= kernel.sum()


def blurred(picture):
    """Average each pixel with its neighbours; everything outside the picture is black."""
    rows = correlate1d(picture, kernel, axis=0, mode="constant")
    return correlate1d(rows, kernel, axis=1, mode="constant")


def readings(x):
    """Return what the working pixels read."""
    return blurred(x.reshape(m, m)).ravel()[alive]


def adjoint(r):
    """Return the adjoint; the blur is symmetric."""
    picture = np.zeros(m * m)
    picture[alive] = r
    return blurred(picture.reshape(m, m)).ravel()


camera = LinearOperator((len(alive), m * m), matvec=readings, rmatvec=adjoint, dtype=np.float64)
seen = readings(truth)

# %%
# The lower level explains the readings; the upper one is the total variation of an image of this
# shape. With `isotropic=True` slanted edges would cost their length; here all edges are straight.
# The primal-dual method solves it, with one product of each operator and its adjoint per step. If
# an operator is known only by its products, nothing can prove f*, and the report says so. (With the
# blur as a sparse matrix, `auto` uses a conic program and proves the answer; a picture of 64 x 64
# takes twice as long as with CVXPY.)

problem = tb.Problem(lower=tb.LeastSquares(camera, seen), upper=tb.TotalVariation(shape=(m, m)))
result = tb.solve(problem, rtol=1e-3)
print(result)
picture = result.x.reshape(m, m)

# %%
# The usual answer is the picture of least norm. It explains the readings just as well, but the dead
# pixels still show.

usual = tb.solve(
    tb.Problem(lower=tb.LeastSquares(camera, seen), upper=tb.SquaredNorm()), rtol=1e-3
).x.reshape(m, m)
sensor = np.full(m * m, np.nan)
sensor[alive] = seen

fig, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
for ax, shown, name in (
    (axes[0], sensor.reshape(m, m), "what the sensor reads"),
    (axes[1], usual, f"least norm, off by up to {np.max(np.abs(usual - truth)):.2f}"),
    (axes[2], picture, f"least variation, off by up to {np.max(np.abs(picture - truth)):.2f}"),
):
    ax.imshow(shown, cmap="gray", vmin=-0.1, vmax=1.1, interpolation="nearest")
    ax.set_title(name, fontsize=10)
    ax.axis("off")

best = tb.TotalVariation(shape=(m, m)).value(truth.ravel())
assert result.success
assert abs(result.upper_value - best) <= 1e-3 * best
assert result.lower_value <= 1e-3 * 0.5 * float(seen @ seen)
assert np.max(np.abs(picture - truth)) < 0.2 < np.max(np.abs(usual - truth))
plt.show()
