"""The figures: the procedure, the synthetic data, and accuracy against the number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from apportion._io.atomic_write import Outputs
from apportion.datasets import make_bags, make_half_kernel, make_xor
from apportion.estimators import LPLLP
from apportion.graphs import KNNGraph
from experiments.sections import DESIGNS, Section
from experiments.summary import Key, Score, printed_for
from experiments.trials import Method

BAG_COLORS = ("#E69F00", "#009E73", "#CC79A7")
CLASS_COLORS = ("#0072B2", "#D55E00")
_GRAY = "0.86"
MARKERS = ("o", "s", "^")
_LINES = {
    "lp-llp": ("#000000", "o"),
    "auto": ("#56B4E9", "h"),
    "lp-llp-literal": ("#999999", "v"),
    "prop-svm": ("#D55E00", "s"),
    "inv-cal": ("#0072B2", "^"),
    "mean-map": ("#009E73", "D"),
    "em": ("#CC79A7", "P"),
    "majority": ("#BBBBBB", "x"),
    "supervised": ("#E69F00", "*"),
}


def draw_procedure() -> Any:
    """Draw the paper's Figure 1: bags, their proportions as soft labels, neighbors, labels."""
    from matplotlib.colors import LinearSegmentedColormap

    figure = _canvas(13.5, 2.9)
    colors = LinearSegmentedColormap.from_list("classes", [CLASS_COLORS[0], _GRAY, CLASS_COLORS[1]])
    X, y = make_half_kernel(90, random_state=1)
    bags, totals = make_bags(X, y, proportions=DESIGNS["B"], random_state=1)
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    prior = totals.lower[bags, 1]
    graph = KNNGraph(n_neighbors=6).fit(X)
    W = graph.affinity_
    once = (W @ prior) / graph.degrees_
    chosen = int(np.argmax(np.where(X[:, 1] > 1.0, graph.scales_, 0.0)))
    nearest = np.argsort(-W[[chosen]].toarray().ravel())[:5]

    axes = figure.subplots(1, 4)
    for k, color in enumerate(BAG_COLORS):
        mine = bags == k
        axes[0].scatter(*X[mine].T, s=26, c=color, marker=MARKERS[k], label=f"bag {k + 1}")
    axes[0].legend(loc="lower center", fontsize=8, ncols=3, frameon=False, columnspacing=1)
    for panel, shade in ((1, prior), (2, once), (3, model.transduction_)):
        for k, marker in enumerate(MARKERS):
            mine = bags == k
            points = axes[panel].scatter(
                *X[mine].T, s=26, c=shade[mine], cmap=colors, vmin=0, vmax=1, marker=marker
            )
    for neighbor in nearest:
        line = {"arrowstyle": "->", "color": "#333333", "lw": 1.0, "shrinkA": 3, "shrinkB": 4}
        axes[2].annotate("", X[chosen], X[neighbor], arrowprops=line)
    axes[2].scatter(*X[chosen], s=80, facecolors="none", edgecolors="black", linewidths=1.5)
    right = (model.transduction_ == y).mean()
    titles = (
        "1  rows lie in bags whose\nproportions are known",
        "2  a bag's proportion is\nthe soft label of its rows",
        "3  a row is influenced\nby its neighbors",
        f"4  in the end, every row has a label\n({right:.0%} are right)",
    )
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.set(aspect="equal", xticks=[], yticks=[], ylim=(-0.75, 2.5))
    bar = figure.colorbar(points, ax=axes, shrink=0.9, pad=0.01)
    bar.set_label("share of class 1")
    return figure


def draw_synthetic() -> Any:
    """Draw the paper's Figure 2: Half-Kernel and XOR, with our constants."""
    figure = _canvas(9, 4.2)
    axes = figure.subplots(1, 2)
    sets = (
        ("Half-Kernel: radii 1 and 2, noise 0.1", make_half_kernel(600, random_state=0)),
        ("XOR: side 10, unit covariance", make_xor(600, random_state=0)),
    )
    for axis, (title, (X, y)) in zip(axes, sets, strict=True):
        for label, color in enumerate(CLASS_COLORS):
            style = {"s": 14, "c": color, "marker": MARKERS[label], "label": f"class {label}"}
            axis.scatter(*X[y == label].T, edgecolors="white", linewidths=0.3, **style)
        axis.set_title(f"{title}, 600 rows", fontsize=10)
        axis.legend(fontsize=8)
        axis.set_aspect("equal")
        axis.tick_params(labelsize=8)
    return figure


def draw_accuracy(
    section: Section, protocol: str, scores: Mapping[Key, Score], methods: Mapping[str, Method]
) -> Any:
    """Draw mean accuracy against the number of rows for both designs; bars are standard errors."""
    sizes = sorted({n_samples for n_samples, _ in section.cells})
    figure = _canvas(10, 4.4)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, design in zip(axes, DESIGNS, strict=True):
        for number, method in enumerate(methods):
            color, marker = _LINES.get(method, (f"C{number % 10}", "."))
            shift = 1.0 + 0.012 * (number - len(methods) / 2)
            keys = [(section.key, protocol, f"{n}{design}", method) for n in sizes]
            points = [
                (n * shift, scores[key])
                for n, key in zip(sizes, keys, strict=True)
                if key in scores and scores[key].n
            ]
            if not points:
                continue
            axis.errorbar(
                [x for x, _ in points],
                [score.mean for _, score in points],
                yerr=[s.std / np.sqrt(s.n) if s.n > 1 else 0.0 for _, s in points],
                color=color,
                marker=marker,
                capsize=2,
                lw=1.4,
                ls="--" if methods[method].sees_labels else "-",
                label=methods[method].heading,
            )
        printed = [(n, printed_for(section.key, f"{n}{design}", "lp-llp")) for n in sizes]
        shown = [(n, score.mean) for n, score in printed if score is not None]
        if shown:
            style = {"color": "#000000", "marker": "o", "mfc": "white", "label": "printed LP-LLP"}
            axis.plot(*zip(*shown, strict=True), ":", **style)
        shares = ", ".join(f"{share:.2f}" for share in DESIGNS[design])
        axis.set_title(f"design {design}: {shares} of class 1", fontsize=10)
        axis.set_xscale("log")
        axis.set_xticks(sizes, [str(n) for n in sizes])
        axis.minorticks_off()
        axis.set_xlabel("rows")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("accuracy")
    named = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    order = sorted(named, key=lambda label: label.startswith("printed"))
    figure.legend([named[label] for label in order], order, loc="outside right center", fontsize=8)
    figure.suptitle(f"{section.title}, {protocol}", fontsize=11)
    return figure


def save(figure: Any, path: Path, outputs: Outputs) -> list[Path]:
    """Write a figure as PNG and SVG."""
    from matplotlib import rc_context

    paths = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    outputs.make_folder(path.parent)
    for target in paths:
        undated = {"Date": None} if target.suffix == ".svg" else None
        salted = rc_context({"svg.hashsalt": "apportion"})
        with outputs.writing(target) as temporary, salted:
            figure.savefig(temporary, format=target.suffix[1:], dpi=130, metadata=undated)
    return paths


def _canvas(width: float, height: float) -> Any:
    """Return an empty figure that belongs to no window and changes no setting."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")
