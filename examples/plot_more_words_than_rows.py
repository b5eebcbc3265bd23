"""Which words tell two kinds of text apart?

Suppose that 60 texts have been sorted into two piles: which words make the difference? The texts
contain a thousand different words, so very many weightings of the words sort the 60 texts without a
mistake. The usual ones use every word. The sparsest one is short enough to read aloud.
"""

# %%
# The texts are real and need no network: SciPy's descriptions of its functions for signals
# (`scipy.signal`) and for images (`scipy.ndimage`), without notes and examples. The split is
# random: 60 texts for training, the others for testing. Which words appear depends on your version
# of SciPy.

import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy.ndimage
import scipy.signal
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression

from tiebreak.sklearn import TieBreakRegressor


def descriptions(module):
    """Return the docstrings of a module's functions, up to the notes, references or examples."""
    functions = [getattr(module, name) for name in sorted(module.__all__)]
    texts = [inspect.getdoc(function) for function in functions if inspect.isfunction(function)]
    for heading in ("Notes", "References", "Examples"):
        texts = [text.split(f"\n{heading}\n")[0] for text in texts if text]
    return texts


signals, images = descriptions(scipy.signal), descriptions(scipy.ndimage)
texts = np.array(signals + images, dtype=object)
kind = np.repeat([1.0, -1.0], [len(signals), len(images)])
order = np.random.default_rng(0).permutation(len(kind))
train, test = order[:60], order[60:]

# %%
# There is a row for each text and a column for each word of three letters or more, with a 1 if the
# text contains it. The matrix is sparse and stays sparse.

counter = CountVectorizer(binary=True, token_pattern=r"[a-z]{3,}")
X = counter.fit_transform(texts[train]).astype(float)
words = counter.get_feature_names_out()
print(
    f"{X.shape[0]} texts, {X.shape[1]} words; {X.nnz / np.prod(X.shape):.0%} of the entries are 1"
)

# %%
# We compare scikit-learn's least squares with the sparsest weights among all that give exactly +1
# to every text on signals and -1 to every text on images.

usual = LinearRegression().fit(X, kind[train])
sparsest = TieBreakRegressor(prefer="sparse").fit(X, kind[train])
print(sparsest.report_)

used, right = {}, {}
for name, model in {"scikit-learn": usual, "sparsest": sparsest}.items():
    used[name] = int(np.sum(np.abs(model.coef_) > 1e-9))
    guess = np.sign(model.predict(counter.transform(texts[test]).astype(float)))
    right[name] = np.mean(guess == kind[test])
    wrong = np.max(np.abs(model.predict(X) - kind[train]))
    print(
        f"{name:<13} {used[name]:4d} words, off by {wrong:.0e} on the 60 texts, "
        f"{right[name]:.0%} of {len(test)} new texts right"
    )

# %%
# The sparsest weights are for reading, not for a better score: on new texts, using a little of
# every word is as good or better.

weights = sparsest.coef_
top = np.argsort(-np.abs(weights))[:16]
top = top[np.argsort(weights[top])]
fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
for row, j in enumerate(top):
    image = weights[j] < 0
    ax.barh(
        row,
        weights[j],
        color="#b3372f" if image else "#1f3b6f",
        hatch="//" if image else None,
        edgecolor="white",
    )
    ax.text(0.02 if image else -0.02, row, words[j], ha="left" if image else "right", va="center")
ax.axvline(0.0, color="0.4", linewidth=1)
ax.set_yticks([])
ax.set_xlabel("← speaks for images      weight of the word, the 16 largest      for signals →")
ax.spines[["top", "right", "left"]].set_visible(False)
ax.set_title(
    f"{used['sparsest']} words sort 60 texts without a mistake; scikit-learn uses "
    f"{used['scikit-learn']:,}",
    fontsize=11,
)

assert used["sparsest"] <= 60 < 0.9 * X.shape[1] < used["scikit-learn"]
assert sparsest.proved_
assert sparsest.n_ties_ >= X.shape[1] - 60  # a very large set to choose from
assert np.max(np.abs(sparsest.predict(X) - kind[train])) < 1e-9  # perfect, and so is
assert np.max(np.abs(usual.predict(X) - kind[train])) < 1e-3  # scikit-learn's, to its tolerance
assert np.sum(np.abs(weights)) < 0.9 * np.sum(np.abs(usual.coef_))
assert right["sparsest"] > 0.85
plt.show()
