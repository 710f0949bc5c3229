"""Draw the README's picture: what is known of XOR, and what LP-LLP makes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from apportion import LPLLP
from apportion.datasets import make_bags, make_xor

BAG_COLORS = ["#E69F00", "#009E73", "#CC79A7"]
CLASS_COLORS = ["#0072B2", "#D55E00"]
MARKERS = ["o", "s", "^"]


def main(path: Path) -> None:
    X, truth = make_xor(300, random_state=0)
    bags, totals = make_bags(X, truth, proportions=[0.6, 0.4, 0.5], random_state=0)
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), sharex=True, sharey=True)
    for k, (color, marker) in enumerate(zip(BAG_COLORS, MARKERS, strict=True)):
        mine = bags == k
        left.scatter(
            *X[mine].T,
            s=22,
            c=color,
            marker=marker,
            edgecolors="white",
            linewidths=0.4,
            label=f"bag {k}: {totals.lower[k, 1]:.0%} of class 1",
        )
        right.scatter(
            *X[mine].T,
            s=22,
            c=np.array(CLASS_COLORS)[model.transduction_[mine]],
            marker=marker,
            edgecolors="white",
            linewidths=0.4,
        )
    for label, color in enumerate(CLASS_COLORS):
        right.scatter([], [], s=22, c=color, label=f"labeled {label}")
    accuracy = (model.transduction_ == truth).mean()
    left.set_title("known: each bag's totals")
    right.set_title(f"found: a label for every row ({accuracy:.1%} right)")
    for axes in (left, right):
        axes.legend(loc="center", fontsize=8)
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"{path}: {len(X)} rows, {accuracy:.1%} labeled right")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
