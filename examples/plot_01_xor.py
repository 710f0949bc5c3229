"""
XOR in three bags
=================

Four clouds of points lie at the corners of a square, and opposite corners belong to the same class.
All that is known is the share of class 1 in each of three bags. This is the first experiment of the
paper behind :class:`~apportion.LPLLP`, and it shows why a graph of similar rows helps.
"""

import matplotlib.pyplot as plt
import numpy as np

from apportion import LPLLP, MeanMap
from apportion.datasets import make_bags, make_xor

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# What is known
# -------------
#
# ``make_bags`` deals labeled rows to bags with the wanted shares of class 1, and returns the totals
# that the bags really have. From here on, ``truth`` is used only to count right labels.

X, truth = make_xor(300, random_state=0)
bags, totals = make_bags(X, truth, proportions=[0.6, 0.4, 0.5], random_state=0)
for bag, shares in zip(totals.ids, totals.lower, strict=True):
    print(f"bag {bag}: {np.sum(bags == bag)} rows, {shares[1]:.0%} of class 1")

# %%
# Two methods
# -----------
#
# :class:`~apportion.MeanMap` compares the means of the bags. Both classes of XOR have the same
# mean, so there is nothing for it to find. :class:`~apportion.LPLLP` looks for labels on which
# neighbors agree while every bag keeps its totals: a cloud gets one label, and the totals decide
# which.

labels = {"found by MeanMap": MeanMap(), "found by LPLLP": LPLLP(random_state=0)}
for name, model in labels.items():
    labels[name] = model.fit(X, bags=bags, proportions=totals).transduction_
    print(f"{name}: {np.mean(labels[name] == truth):.1%} of the labels are right")

# %%
# Known and found
# ---------------
#
# Both methods give each bag exactly its totals; that alone does not make labels right.

BAG_COLORS, CLASS_COLORS = ["#009E73", "#CC79A7", "#7F7F7F"], ["#0072B2", "#E69F00"]
MARKERS = ["o", "s", "^"]

figure, axes = plt.subplots(1, 3, figsize=(8, 3.5), sharex=True, sharey=True, layout="constrained")
for bag, (color, marker) in enumerate(zip(BAG_COLORS, MARKERS, strict=True)):
    rows = bags == bag
    points = {"s": 14, "marker": marker, "linewidths": 0}
    axes[0].scatter(*X[rows].T, c=color, label=f"bag {bag}: {totals.lower[bag, 1]:.0%}", **points)
    for ax, found in zip(axes[1:], labels.values(), strict=True):
        ax.scatter(*X[rows].T, c=np.array(CLASS_COLORS)[found[rows]], **points)
axes[0].legend(title="share of class 1", loc="center", fontsize=8, title_fontsize=8, frameon=False)
axes[0].set_title("known: the bags' totals", fontsize=10)
for ax, (name, found) in zip(axes[1:], labels.items(), strict=True):
    ax.set_title(f"{name}:\n{np.mean(found == truth):.0%} right", fontsize=10)
for label, color in enumerate(CLASS_COLORS):
    axes[2].scatter([], [], c=color, s=14, label=f"class {label}")
axes[2].legend(loc="center", fontsize=8, frameon=False)
for ax in axes:
    ax.set(xlabel="first feature", aspect="equal")
axes[0].set_ylabel("second feature")
plt.show()
