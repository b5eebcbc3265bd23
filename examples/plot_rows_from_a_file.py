"""A classifier for a file larger than the available memory

A table of visits has 16,000 rows in one-hot codes: weekday, hour, week, region. The codes of each
question add up to one, so many models fit equally well, and we want the one closest to the
model in use. The file is larger than the memory that the fit may use. Two methods read it rarely:
Newton's method, a slice of rows at a time, and `br-svrg`, which takes a step after every slice.
"""

# %%
# The file has 112 columns and is written a part at a time. (Yours may have a thousand times as many
# rows; apart from a few numbers per row, it would need no more memory.)

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tiebreak as tb

rng = np.random.default_rng(0)
questions, rows = (7, 24, 52, 29), 16_000
columns = sum(questions)
effect, in_use = rng.normal(0, 0.7, columns), rng.normal(0, 0.5, columns)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "visits.npy"
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, columns))
buys = np.empty(rows)
for i in range(0, rows, 4_000):
    codes = [np.eye(k)[rng.integers(0, k, 4_000)] for k in questions]
    file[i : i + 4_000] = np.hstack(codes)
    margin = file[i : i + 4_000] @ effect
    buys[i : i + 4_000] = np.where(rng.random(4_000) < 1 / (1 + np.exp(-margin)), 1, -1)
file.flush()
del file

# %%
# A block has at most 1 MB of rows. `tracemalloc` counts every byte that Python and NumPy ask for.

size = path.stat().st_size / 1e6
used, answers = {}, {}
for method in ("exact", "br-svrg"):
    tracemalloc.start()
    A = tb.Streamed(path, block=10**6)
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=in_use),
        lower=tb.Logistic(A, buys),
        domain=tb.Space() if method == "exact" else tb.Ball(20),
    )
    answers[method] = tb.solve(problem, method, rtol=1e-2, criterion="weak", max_iter=60)
    used[method] = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    print(answers[method])
    readings = A.bytes_read / size / 1e6
    print(f"{size:.0f} MB read {readings:.0f} times, {used[method]:.0f} MB of memory\n")

# %%
# Both answers agree. Newton's is right to rounding; that of `br-svrg` is within the tolerance.

first, second = answers["exact"], answers["br-svrg"]
print(f"f: {first.upper_value:.5f} and {second.upper_value:.5f}")
print(f"g: {first.lower_value:.7f} and {second.lower_value:.7f}")

# %%
fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = {"the file": size, **{f"memory, {name}": megabytes for name, megabytes in used.items()}}
for i, (megabytes, color) in enumerate(
    zip(bars.values(), ("0.8", "#1f3b6f", "#c8553d"), strict=True)
):
    ax.barh(i, megabytes, height=0.6, color=color)
    ax.text(megabytes + 0.3, i, f"{megabytes:.0f} MB", va="center")
ax.set_yticks(range(3), bars)
ax.invert_yaxis()
ax.set(xticks=[], xlim=(0, 1.15 * size))
ax.spines[["top", "right", "bottom"]].set_visible(False)
ax.set_title("A fit that keeps none of the rows", fontsize=11)

assert first.success
assert second.status == "certified"
assert abs(first.upper_value - second.upper_value) < 2e-2 * first.upper_value
assert max(used.values()) < size
folder.cleanup()
plt.show()
