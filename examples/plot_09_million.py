"""
A million rows
==============

:class:`~apportion.LPLLP` chooses its graph by the number of rows. Up to some hundred thousand, it
searches the nearest neighbors of each row; beyond that, and here from the start, rows are tied to
some hundred *anchors*. Time and memory then grow with the number of rows and no faster.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from apportion import LPLLP, AnchorGraph, Totals

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Rows
# ----
#
# Two overlapping classes of eight clusters each, in bags of 50 rows whose shares differ.


def make_rows(n_samples, seed):
    """Return rows in single precision, their classes and their bags."""
    centers = np.random.default_rng(0).normal(0.0, 1.6, (16, 8)).astype(np.float32)
    rng = np.random.default_rng(seed)
    bags = np.arange(n_samples) // 50
    y = (rng.random(n_samples) < rng.uniform(0.2, 0.8, bags[-1] + 1)[bags]).astype(int)
    X = rng.standard_normal((n_samples, 8), dtype=np.float32)
    return X + centers[2 * rng.integers(8, size=n_samples) + y], y, bags


# %%
# Fits of growing size
# --------------------
#
# ``stop="settled"`` ends as soon as labels no longer change, which is sooner than soft labels
# converge. Times depend on the machine, and on what else it does.

MOST_ROWS = 1_000_000
sizes = np.geomspace(MOST_ROWS / 100, MOST_ROWS, 3).astype(int)
model = LPLLP(AnchorGraph(300), stop="settled", random_state=0)
X, y, bags = make_rows(2_000, seed=0)
model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))  # the first fit loads libraries
seconds, right = [], []
for n_samples in sizes:
    X, y, bags = make_rows(n_samples, seed=0)
    totals = Totals.from_labels(y, bags)
    start = time.perf_counter()
    model.fit(X, bags=bags, proportions=totals)
    seconds.append(time.perf_counter() - start)
    right.append(np.mean(model.transduction_ == y))
    print(f"{n_samples:9,} rows: {seconds[-1]:5.1f} s, {right[-1]:.1%} of the labels are right")

# %%
# New rows
# --------
#
# A model on anchors holds means of rows, not rows: it is small, and labels new rows quickly.

X_new, y_new, _ = make_rows(MOST_ROWS // 10, seed=1)
start = time.perf_counter()
share = np.mean(model.predict(X_new) == y_new)
print(f"{len(X_new):,} new rows: {time.perf_counter() - start:.1f} s, {share:.1%} right")

# %%
# How time grows
# --------------
#
# Both axes are logarithmic. Along the gray line, ten times the rows take ten times the time.

figure, (left, other) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.loglog(sizes, seconds[-1] * sizes / sizes[-1], color="#7F7F7F", linewidth=1, label="linear")
left.loglog(sizes, seconds, "o-", color="#0072B2", label="measured")
left.set(xlabel="rows", ylabel="seconds of one fit")
left.legend(frameon=False)
other.semilogx(sizes, right, "o-", color="#0072B2")
other.set(xlabel="rows", ylabel="share of right labels", ylim=(0.9, 1.005))
other.yaxis.set_major_formatter("{x:.0%}")
for ax in (left, other):
    ax.grid(color="#DDDDDD", linewidth=0.6)
plt.show()
