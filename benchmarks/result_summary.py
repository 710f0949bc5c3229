"""Tables and a picture of the results that `tables.py` and `natural.py` keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from candidates import BASELINES, N_BINS, PARTS, SUPERVISED, is_single

Row = dict[str, Any]
Cells = dict[tuple[str, Any, int], dict[str, Row]]
"""The results of one data set, bags and seed, by the name of the method."""


def print_summary(
    rows: Sequence[Row],
    group_of: Callable[[Row], str],
    shown: Sequence[str] | None = None,
    *,
    details: bool = False,
) -> None:
    """Print one table of methods per group and one of all, `AutoLLP`'s own account, and failures.

    Parameters
    ----------
    rows : sequence of dict
        Results.
    group_of : callable
        From a result to the name of its group.
    shown : sequence of str, optional
        The methods to print; regrets and ranks are of all.
    details : bool, default=False
        Whether to print every cell.
    """
    good = [row for row in rows if "accuracy" in row]
    if not good:
        print("no results")
    groups = list(dict.fromkeys(group_of(row) for row in sorted(good, key=order)))
    for group in groups:
        print_methods(group, cells_of([row for row in good if group_of(row) == group]), shown)
    if len(groups) > 1:
        print_methods("all", cells_of(good), shown)
    for name in sorted({row["method"] for row in good if row["method"].startswith("AutoLLP")}):
        print_auto(name, good, groups, group_of)
    if details:
        print_cells(cells_of(good))
    print_failures(rows)


def order(row: Row) -> tuple[Any, ...]:
    bags = row["bags"]
    return (0, bags) if isinstance(bags, int) else (1, row["data"], len(bags), bags)


def cells_of(rows: Sequence[Row]) -> Cells:
    cells: Cells = {}
    for row in rows:
        cells.setdefault((row["data"], row["bags"], row["seed"]), {})[row["method"]] = row
    return cells


def best_single(cell: dict[str, Row]) -> float:
    """Return the accuracy of the best single method of a cell; NaN where there is none."""
    return max((row["accuracy"] for name, row in cell.items() if is_single(name)), default=np.nan)


def ranks(cell: dict[str, Row]) -> dict[str, float]:
    """Return the rank of each method that sees no labels, 1 for the best."""
    names = [name for name in cell if name != SUPERVISED]
    values = rankdata([-cell[name]["accuracy"] for name in names])
    return dict(zip(names, values.tolist(), strict=True))


def print_methods(title: str, cells: Cells, shown: Sequence[str] | None) -> None:
    """Print one line per method: the best first, then the baselines."""
    names = {name for cell in cells.values() for name in cell}
    accuracy = {
        name: np.mean([cell[name]["accuracy"] for cell in cells.values() if name in cell])
        for name in names
    }
    print(f"\n{title}: {len(cells)} cells")
    print(f"{'':26}{'cells':>6}{'accuracy':>10}{'regret':>8}{'worst':>7}{'rank':>6}{'CPU s':>8}")
    for name in sorted(names, key=lambda name: (name in BASELINES, -accuracy[name])):
        if shown is not None and name not in shown:
            continue
        mine = [cell for cell in cells.values() if name in cell]
        cpu = np.mean([cell[name]["cpu"] for cell in mine])
        line = f"{name:26}{len(mine):>6}{accuracy[name]:>10.3f}"
        if name == SUPERVISED:
            line += " " * 21
        else:
            regret = [best_single(cell) - cell[name]["accuracy"] for cell in mine]
            rank = np.mean([ranks(cell)[name] for cell in mine])
            line += f"{np.mean(regret):>8.3f}{np.max(regret):>7.3f}{rank:>6.1f}"
        print(f"{line}{cpu:>8.2f}")
    if len({sum(name in cell for cell in cells.values()) for name in names}) > 1:
        print("  methods are means over their own cells, of which not all have the same number")


def print_auto(
    name: str, rows: Sequence[Row], groups: Sequence[str], group_of: Callable[[Row], str]
) -> None:
    """Print how far `AutoLLP` is from the best single method, and how right it thinks it is."""
    cells = cells_of(rows)
    singles = {method for cell in cells.values() for method in cell if is_single(method)}
    complete = {key: cell for key, cell in cells.items() if name in cell and singles <= cell.keys()}
    print(f"\n{name}: {len(complete)} cells that it and all {len(singles)} single methods have")
    if complete and singles:
        print_regret(name, complete, sorted(singles), groups, group_of)
    mine = [row for row in rows if row["method"] == name and "estimated" in row]
    for part, words in PARTS.items():
        print_estimates(part, words, mine, groups, group_of)
    print_reliability(mine)


def print_regret(
    name: str,
    cells: Cells,
    singles: Sequence[str],
    groups: Sequence[str],
    group_of: Callable[[Row], str],
) -> None:
    means = {
        method: np.mean([cell[method]["accuracy"] for cell in cells.values()])
        for method in (name, *singles)
    }
    best = max(singles, key=lambda method: means[method])
    gain = means[name] - means[best]
    print(f"  mean {means[name]:.3f}, {gain:+.3f} against the best single mean, {best}")
    regret = {key: best_single(cell) - cell[name]["accuracy"] for key, cell in cells.items()}
    group = {key: group_of(cell[name]) for key, cell in cells.items()}
    parts = [[value for key, value in regret.items() if group[key] == one] for one in groups]
    each = [f"{one}: {np.mean(part):.3f}" for one, part in zip(groups, parts, strict=True) if part]
    print(f"  mean regret {np.mean(list(regret.values())):.3f} ({'; '.join(each)})")
    worst = max(regret, key=lambda key: regret[key])
    print(f"  worst regret {regret[worst]:.3f} in {worst[0]}, {worst[1]}, seed {worst[2]}")
    over_seeds = seed_means(cells, (name, *singles))
    by_cell = {key: max(m[s] for s in singles) - m[name] for key, m in over_seeds.items()}
    worst_cell = max(by_cell, key=lambda key: by_cell[key])
    print(
        f"  of accuracies averaged over seeds: mean regret {np.mean(list(by_cell.values())):.3f}, "
        f"worst {by_cell[worst_cell]:.3f} in {worst_cell[0]}, {worst_cell[1]}"
    )


def seed_means(cells: Cells, names: Sequence[str]) -> dict[tuple[str, Any], dict[str, float]]:
    """Return the mean accuracy over seeds per data set and bags."""
    together: dict[tuple[str, Any], list[dict[str, Row]]] = {}
    for (data, bags, _), cell in cells.items():
        together.setdefault((data, bags), []).append(cell)
    return {
        key: {name: float(np.mean([one[name]["accuracy"] for one in each])) for name in names}
        for key, each in together.items()
    }


def true_accuracy(row: Row, part: str) -> float | None:
    return row["accuracy"] if part == "fitted_rows" else row.get("held_out_accuracy")


def print_estimates(
    part: str,
    words: str,
    rows: Sequence[Row],
    groups: Sequence[str],
    group_of: Callable[[Row], str],
) -> None:
    """Print how far the estimated accuracy is from the true one, and where it is withheld."""
    given = [
        row
        for row in rows
        if row["estimated"][part]["value"] is not None and true_accuracy(row, part) is not None
    ]
    print(f"  {words}: estimated in {len(given)} of {len(rows)} cells", end="")
    if given:
        off = np.array(
            [row["estimated"][part]["value"] - true_accuracy(row, part) for row in given]
        )
        worst = given[int(np.abs(off).argmax())]
        print(
            f"; mean |estimated - true| {np.abs(off).mean():.3f}, bias {off.mean():+.3f}, worst "
            f"{off[np.abs(off).argmax()]:+.3f} in {worst['data']}, {worst['bags']}, "
            f"seed {worst['seed']}"
        )
        for group in groups:
            mine = np.array([group_of(row) == group for row in given])
            total = sum(group_of(row) == group for row in rows)
            if mine.any():
                mean, bias = np.abs(off[mine]).mean(), off[mine].mean()
                held = covered(given, mine, part)
                cells = f"{mine.sum()} of {total} cells"
                print(f"    {group}: {mean:.3f}, bias {bias:+.3f}, {cells}{held}")
    else:
        print()
    reasons = Counter(row["estimated"][part]["reason"] for row in rows if row not in given)
    for reason, count in reasons.most_common():
        print(f"    withheld in {count}: {reason or 'no reason is given'}")


def covered(rows: Sequence[Row], chosen: Any, part: str) -> str:
    """Return in how many cells the truth lies in the interval."""
    bounds = [
        (row["estimated"][part]["low"], true_accuracy(row, part), row["estimated"][part]["high"])
        for row, taken in zip(rows, chosen, strict=True)
        if taken and None not in row["estimated"][part].values()
    ]
    inside = sum(low <= truth <= high for low, truth, high in bounds)
    return f", {inside} of {len(bounds)} intervals hold the truth" if bounds else ""


def reliability_of(rows: Sequence[Row], part: str) -> dict[str, Any]:
    """Return confidence, share right and rows per bin, summed over cells."""
    found = [row["reliability"][part] for row in rows if part in row["reliability"]]
    sums = {
        key: np.sum([bins[key] for bins in found], axis=0) if found else np.zeros(N_BINS)
        for key in ("confidence", "right", "count")
    }
    with np.errstate(invalid="ignore"):
        means = {key: sums[key] / sums["count"] for key in ("confidence", "right")}
    return {**means, "count": sums["count"]}


def print_reliability(rows: Sequence[Row]) -> None:
    """Print how often labels of each confidence are right."""
    parts = {words: reliability_of(rows, part) for part, words in PARTS.items()}
    print(f"  {'confidence':>12}" + "".join(f"{words:>28}" for words in parts))
    print(f"  {'':>12}" + f"{'rows':>12}{'says':>8}{'right':>8}" * len(parts))
    for k in range(N_BINS):
        line = f"  {k / N_BINS:>6.1f} – {(k + 1) / N_BINS:.1f}"
        for bins in parts.values():
            n = bins["count"][k]
            line += f"{n:>12,.0f}" + (
                f"{bins['confidence'][k]:>8.3f}{bins['right'][k]:>8.3f}" if n else " " * 16
            )
        if any(bins["count"][k] for bins in parts.values()):
            print(line)
    for words, bins in parts.items():
        if bins["count"].any():
            gap = np.nan_to_num(np.abs(bins["confidence"] - bins["right"]))
            print(f"  {words}: mean gap {np.average(gap, weights=bins['count']):.3f}")


def print_cells(cells: Cells) -> None:
    """Print one line per cell: its best single method, `AutoLLP` and the baselines."""
    others = sorted({name for cell in cells.values() for name in cell if not is_single(name)})
    print(f"\n{'':40}{'best single method':>34}" + "".join(f"{name:>14}" for name in others))
    for (data, bags, seed), cell in cells.items():
        best, winner = max(
            ((row["accuracy"], name) for name, row in cell.items() if is_single(name)),
            default=(np.nan, ""),
        )
        row = next(iter(cell.values()))
        title = f"{data}, {bags}, seed {seed}: {row['n']} rows, {row['n_bags']} bags"
        values = [f"{cell[n]['accuracy']:>14.3f}" if n in cell else f"{'':14}" for n in others]
        print(f"{title:40}{winner:>28}{best:>6.3f}{''.join(values)}")


def print_failures(rows: Sequence[Row]) -> None:
    failed = [row for row in rows if "error" in row]
    if failed:
        print(f"\n{len(failed)} fits failed; they count in no mean")
    for row in failed:
        print(
            f"  {row['method']}: {row['data']}, {row['bags']}, seed {row['seed']}: {row['error']}"
        )


def draw_reliability(rows: Sequence[Row], path: Path) -> None:
    """Draw how often labels of each confidence are right, and how many rows have it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from apportion.plotting._palette import class_styles

    mine = [row for row in rows if row["method"] == "AutoLLP" and "reliability" in row]
    if not mine:
        print("no reliability diagram: there are no results of AutoLLP")
        return
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(5, 6), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    upper.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
    upper.annotate("calibrated", (0.12, 0.14), rotation=45, rotation_mode="anchor", color="0.4")
    edges = np.linspace(0, 1, N_BINS + 1)
    for number, (part, words) in enumerate(PARTS.items()):
        bins, style = reliability_of(mine, part), class_styles(2)[number]
        some = bins["count"] > 0
        upper.plot(
            bins["confidence"][some],
            bins["right"][some],
            color=style.color,
            marker=style.marker,
            label=words,
        )
        width = 0.4 / N_BINS
        place = edges[:-1] + width * (0.25 + 1.0 * number)
        share = bins["count"] / max(bins["count"].sum(), 1)
        lower.bar(place, share, width, align="edge", color=style.color, hatch=style.hatch)
    n_tables = len({row["data"] for row in mine})
    upper.set(ylabel="share of these labels that is right", xlim=(0, 1), ylim=(0, 1))
    upper.set_title(f"Reliability of AutoLLP: {len(mine)} problems, {n_tables} data sets")
    lower.set(xlabel="confidence", ylabel="share of rows")
    upper.legend(frameon=False, loc="lower right")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"{path}: {len(mine)} problems")
