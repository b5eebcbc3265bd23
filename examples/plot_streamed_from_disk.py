"""Fit data from a file that is larger than the memory

The features of a model are in a file that does not fit into the machine's memory, at least not
along with everything else that runs there. `tb.Streamed` uses the file as the matrix of a loss:
every step reads it once, block by block, and keeps only a few blocks. The problem, the answer and
the proof are the same as for an array in memory. The same call works with a GPU.
"""

# %%
# Is a digit even or odd? The features are 18,000 random waves over the 64 pixels of scikit-learn's
# digits, for 480 of them: 69 MB, and many perfect fits, among which we want the one with the
# smallest coefficients. (This is only an example; your file may have a thousand times as many
# rows.)

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tiebreak as tb

pixels, digit = load_digits(return_X_y=True)
is_odd = np.where(digit % 2, 1.0, -1.0)
rng = np.random.default_rng(0)
order = rng.permutation(len(digit))
seen, unseen = order[:480], order[480:980]
waves, phases = rng.normal(0, 1.5, (64, 18_000)), rng.uniform(0, 2 * np.pi, 18_000)


def features(rows):
    return np.sqrt(2 / 18_000) * np.cos(pixels[rows] / 16 @ waves + phases)


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "features.npy"
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(480, 18_000))
for i in range(0, 480, 50):
    file[i : i + 50] = features(seen[i : i + 50])
file.flush()
del file

# %%
# A block has at most 2 MB of rows. `tracemalloc` counts every byte that Python and NumPy ask for.

tracemalloc.start()
A = tb.Streamed(path, block=2 * 10**6)
result = tb.solve(
    tb.Problem(lower=tb.LeastSquares(A, is_odd[seen]), upper=tb.SquaredNorm()), rtol=0.01
)
streamed = tracemalloc.get_traced_memory()[1] / 1e6
tracemalloc.stop()
size = path.stat().st_size / 1e6
print(result)
print(f"{size:.0f} MB of data, {A.bytes_read / size / 1e6:.0f} passes, {streamed:.0f} MB of memory")

# %%
# For comparison, a formula gives the answer with the data in memory: x = A' (A A')^-1 b.

tracemalloc.start()
whole = np.load(path)
x = whole.T @ np.linalg.solve(whole @ whole.T, is_odd[seen])
in_memory = tracemalloc.get_traced_memory()[1] / 1e6
tracemalloc.stop()
difference = np.linalg.norm(result.x - x) / np.linalg.norm(x)
guess = np.concatenate([np.sign(features(part) @ result.x) for part in np.split(unseen, 10)])
right = np.mean(guess == is_odd[unseen])
print(
    f"x differs by {difference:.0e}; {100 * right:.1f} % of {len(unseen)} unseen digits are right"
)

# %%
# On a GPU, PyTorch (or CuPy) arrays stay where they are.

try:
    import torch

    has_gpu = torch.cuda.is_available()
except ImportError:
    has_gpu = False
if has_gpu:
    matrix, target = (torch.tensor(part, device="cuda") for part in (whole, is_odd[seen]))
    on_gpu = tb.solve(tb.Problem(lower=tb.LeastSquares(matrix, target), upper=tb.SquaredNorm()))
    print(on_gpu)
    assert np.linalg.norm(on_gpu.x.cpu().numpy() - x) < 1e-4 * np.linalg.norm(x)
else:
    print("no GPU here: this part was left out")

# %%
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
bars = {"the file": size, "memory, NumPy": in_memory, "memory, streamed": streamed}
looks = ({"color": "0.85", "hatch": "//"}, {"color": "#c8553d"}, {"color": "#1f3b6f"})
for i, (megabytes, look) in enumerate(zip(bars.values(), looks, strict=True)):
    ax.barh(i, megabytes, height=0.6, edgecolor="0.4", **look)
    ax.text(megabytes + 1, i, f"{megabytes:.0f} MB", va="center")
ax.set_yticks(range(3), bars)
ax.invert_yaxis()
ax.set(xticks=[], xlim=(0, 1.1 * in_memory))
ax.spines[["top", "right", "bottom"]].set_visible(False)
ax.set_title(f"A fit to {size:.0f} MB of data in {streamed:.0f} MB of memory", fontsize=11)

assert result.success
assert streamed < 0.2 * size < size <= in_memory
assert difference < 1e-6
assert right > 0.93
folder.cleanup()
plt.show()
