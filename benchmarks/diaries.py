"""Labels with and without time: SPHERE, WISDM, made-up weeks; accuracy, episodes, short activities.

    python benchmarks/diaries.py                                  # resumes; hours for everything
    python benchmarks/diaries.py --sets weeks-5min sphere-300s --seeds 1         # some sets
    python benchmarks/diaries.py --candidates count-rbf trees lpllp --seeds 1    # a quicker look
    python benchmarks/diaries.py --methods Auto --again           # after a change of its code
    python benchmarks/diaries.py --rows 31000                     # every row of every set
    python benchmarks/diaries.py --summary --details              # with the recall per class

- sphere-60s, -300s: annotated seconds of ten people in five groups of activities, the features of
  `natural.py`; bags are 60 or 300 s of one recording. sphere-person: every person has one
  recording, so that totals per participant are those of a recording: ten bags. sphere-all: all
  recordings are one bag. Seconds whose annotators are of two minds are not scored.
- wisdm-user: windows of 10 s of a phone, users as bags. Their order is that of the file; it is that
  of a user's session, but windows between activities were left out, and never have two.
- weeks-5min, -1min: made-up homes, a week of three people in windows of 5 minutes or 1; bags are
  their days, features what sensors see. weeks-gaps: 20 % of the time are not recorded, in blocks
  of 10 minutes to 3 hours, and totals are of the recorded time. weeks-onoff: motion detectors and
  lamps, on or off.

Windows have neighbors in time, therefore of limited rows whole recordings are taken: those of some
people, and of made-up weeks one person's days after the other's, at least one person's week; of
sphere-person, a stretch of every recording. Methods know exact totals. An episode is a run of one
label in a recording, and the recall of short ones is of windows in true episodes of less than 15
minutes (SPHERE: 15 s, as half of its episodes take 3 s; WISDM: 2 min, as none takes 15).
"supervised" learns from the labels of other people, or other days of made-up weeks, also beyond the
limit, and knows no totals; "supervised, context" sees the means and deviations of ±5 windows of the
recording, too. The CPU seconds of "supervised" are of the first cell that needs it.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from candidates import MAJORITY, SUPERVISED, own_account, parameter_hash
from diary_sets import SETS, Diary
from natural import DATA
from result_summary import cells_of, draw_reliability, print_failures
from results import ResultFile, Row, Task, add_options, current, named, run

CONTEXT, TIME, DECODED = f"{SUPERVISED}, context", ", time", " and decoding"
REACH = 5
"""Windows before and after that "supervised, context" sees."""


class Method(NamedTuple):
    """From candidates of `AutoLLP` and a seed to an estimator, and whether it is given times."""

    make: Callable[[Any, int], Any]
    in_time: bool = False


def lpllp(_: Any, seed: int) -> Any:
    from apportion import LPLLP

    return LPLLP(random_state=seed)


def auto(candidates: Any, seed: int) -> Any:
    from apportion import AutoLLP

    return AutoLLP(candidates, random_state=seed)


def auto_along_time(candidates: Any, seed: int) -> Any:
    return auto(candidates, seed).set_params(decode="sequence")


BASELINES = (MAJORITY, SUPERVISED, CONTEXT)
METHODS = {
    "LPLLP": Method(lpllp),
    f"LPLLP{TIME}": Method(lpllp, in_time=True),
    "AutoLLP": Method(auto),
    f"AutoLLP{TIME}": Method(auto, in_time=True),
    f"AutoLLP{TIME}{DECODED}": Method(auto_along_time, in_time=True),
}
"""What learns from totals. A name with `TIME` is compared with the one without."""


def available() -> list[str]:
    """Return the methods of this version of the library; say what is left out."""
    names = list(BASELINES)
    for name, method in METHODS.items():
        if (
            method.in_time
            and "times" not in inspect.signature(method.make("auto", 0).fit).parameters
        ):
            print(f"{name} is left out: its `fit` takes no times")
        else:
            names.append(name)
    return names


# Results are kept under a name that says all, so that those of other candidates are others.
def with_candidates(name: str, candidates: Sequence[str] | None) -> str:
    return f"{name} of {' '.join(candidates)}" if candidates and name.startswith("Auto") else name


def without_candidates(name: str) -> tuple[str, Any]:
    """Return the name of a method, and the candidates of `AutoLLP`."""
    short, _, candidates = name.partition(" of ")
    return short, candidates.split() or "auto"


class DiaryTask(Task):
    """One fit, of one of `METHODS`."""

    __slots__ = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """Return what a stored result must agree in to count for this task."""
        name, candidates = without_candidates(self.method)
        if name in BASELINES:
            return (*self, "baseline")
        return (*self, parameter_hash(METHODS[name].make(candidates, self.seed)))


def draw(folder: Path, data: str, bags: str, seed: int, most: int) -> Diary:
    """Return one cell."""
    return SETS[data].draw(folder, seed, most)


def measured(diary: Diary, method: str, seed: int) -> Row:
    """Return what is right and how often labels change, and what the model itself says of it."""
    warnings.simplefilter("ignore")
    name, candidates = without_candidates(method)
    started, model = time.process_time(), None
    if name == MAJORITY:
        from apportion.metrics import bag_majority

        labels = bag_majority(diary.bags, diary.totals)
    elif name in BASELINES:
        labels = supervised(diary, context=name == CONTEXT)
    else:
        model = METHODS[name].make(candidates, seed)
        when = {"times": diary.times, "sequences": diary.recordings}
        known = {"bags": diary.bags, "proportions": diary.totals}
        model.fit(diary.X, **known, **(when if METHODS[name].in_time else {}))
        labels = model.transduction_
    cpu = time.process_time() - started
    about = getattr(getattr(model, "candidate_report_", None), "about_time", "")
    return {**scores(diary, labels), "cpu": cpu, "about_time": about, **own_account(model, diary)}


def scores(diary: Diary, labels: Any) -> Row:
    """Return accuracies and episodes, and what is true of the diary."""
    right, scored = labels == diary.y, diary.is_scored
    short = scored & diary.short
    recall = {
        str(name): float(right[scored & (diary.y == name)].mean())
        for name in np.unique(diary.y[scored])
    }
    return {
        "accuracy": diary.accuracy(labels),
        "balanced": float(np.mean(list(recall.values()))),
        "recall": recall,
        "episodes": diary.n_episodes(labels),
        "true_episodes": diary.n_episodes(diary.y),
        "recordings": len(np.unique(diary.recordings)),
        "short": float(right[short].mean()) if short.any() else None,
        "short_share": float(short.sum() / scored.sum()),
    }


_supervised: dict[str, Any] = {}


def supervised(diary: Diary, *, context: bool) -> Any:
    """Return labels by trees that saw the labels of other people or days, of the whole set.

    They know no totals, therefore they are fitted once for all bags of the same rows.
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import GroupKFold, cross_val_predict

    X, y, groups, recordings, kept = diary.everyone
    X = in_context(X, recordings) if context else X
    parts = (np.ascontiguousarray(array).tobytes() for array in (X, y, groups))
    key = hashlib.sha256(b"".join(parts)).hexdigest()
    if key not in _supervised:
        folds = GroupKFold(min(5, len(np.unique(groups))))
        trees = ExtraTreesClassifier(100, random_state=0)
        _supervised[key] = cross_val_predict(trees, X, y, groups=groups, cv=folds)
    return _supervised[key][kept]


def in_context(X: Any, recordings: Any) -> Any:
    """Return the features, and their means and deviations over the windows around."""
    from apportion.context import add_context

    return add_context(X, times=np.arange(len(X)), sequences=recordings, reach=REACH)


def tasks_of(given: argparse.Namespace, chosen: Sequence[str]) -> list[Task]:
    """Return the fits to do, seed after seed; name the data that are not there."""
    missing = [name for name in given.sets if not (given.data / SETS[name].file).exists()]
    for name in missing:
        print(f"{name} is left out: there is no {given.data / SETS[name].file}")
    return [
        DiaryTask(name, SETS[name].bags, seed, given.rows, method)
        for seed in range(given.seeds)
        for name in given.sets
        for method in chosen
        if name not in missing and seed < SETS[name].most_seeds
    ]


def print_cells(rows: Sequence[Row], *, details: bool) -> None:
    """Print one table per cell, with a line per method, and its recall per class if asked for."""
    for (data, bags, seed), cell in cells_of(rows).items():
        one = next(iter(cell.values()))
        print(
            f"\n{data}, seed {seed}: {one['n']:,} rows, {one['n_bags']} bag(s) ({bags}), "
            f"{one['true_episodes']} episodes in {one['recordings']} recording(s); "
            f"{one['short_share']:.0%} of the windows in episodes under {SETS[data].short}"
        )
        print(
            f"  {'':20}{'accuracy':>9}{'balanced':>9}{'episodes':>16}{'short':>7}{'CPU s':>8}"
            f"{'estimate':>10}  about time"
        )
        for row in cell.values():
            print(cell_line(row))
            if details:
                print("      " + ", ".join(f"{k} {v:.2f}" for k, v in row["recall"].items()))


def cell_line(row: Row) -> str:
    """Return the figures of one fit; `estimate` is how far the estimated accuracy is off."""
    value = row.get("estimated", {}).get("fitted_rows", {}).get("value")
    off = "" if value is None else f"{abs(value - row['accuracy']):.3f}"
    found = f"{row['episodes']} (×{row['episodes'] / row['true_episodes']:.2f})"
    short = "" if row["short"] is None else f"{row['short']:.3f}"
    return (
        f"  {without_candidates(row['method'])[0]:20}{row['accuracy']:>9.3f}{row['balanced']:>9.3f}"
        f"{found:>16}{short:>7}{row['cpu']:>8.1f}{off:>10}  {row['about_time']}"
    ).rstrip()


def print_differences(rows: Sequence[Row]) -> None:
    """Print what time changes, for every set and method that has results with and without."""
    cells = list(cells_of(rows).values())
    names = [name for name in dict.fromkeys(row["method"] for row in rows) if TIME in name]
    for name in names:
        plain = name.replace(TIME, "").replace(DECODED, "")
        both = [(cell[plain], cell[name]) for cell in cells if plain in cell and name in cell]
        if both:
            print_difference(name, both)


def print_difference(name: str, both: Sequence[tuple[Row, Row]]) -> None:
    """Print, per set, the means over seeds without and with time."""
    title = without_candidates(name)[0]
    print(f"\n{title}: without → with, means over seeds; episodes are found / true")
    print(
        f"  {'':16}{'cells':>6}{'accuracy':>16}{'':8}{'balanced':>16}{'episodes':>14}{'short':>16}"
    )
    differences, ratios = {}, {}
    for data in dict.fromkeys(row["data"] for row, _ in both):
        pairs = [pair for pair in both if pair[0]["data"] == data]
        accuracy, balanced, short = (means(pairs, key) for key in ("accuracy", "balanced", "short"))
        ratio = np.exp(np.mean([[log_ratio(row) for row in pair] for pair in pairs], axis=0))
        differences[data], ratios[data] = accuracy[1] - accuracy[0], ratio[1]
        print(
            f"  {data:16}{len(pairs):>6}{arrow(accuracy):>16}{differences[data]:>+8.3f}"
            f"{arrow(balanced):>16}{f'{ratio[0]:.2f} → {ratio[1]:.2f}':>14}{arrow(short):>16}"
        )
    worst = min(differences, key=lambda data: differences[data])
    better = sum(value > 0 for value in differences.values())
    close = sum(1 / 1.5 <= value <= 1.5 for value in ratios.values())
    cell = min(both, key=lambda pair: pair[1]["accuracy"] - pair[0]["accuracy"])
    print(
        f"  better in {better} of {len(differences)} sets; worst difference "
        f"{differences[worst]:+.3f} in {worst} (of one cell: "
        f"{cell[1]['accuracy'] - cell[0]['accuracy']:+.3f} in {cell[0]['data']}, seed "
        f"{cell[0]['seed']}); episodes within a factor of 1.5 in {close} of {len(ratios)}"
    )


def means(pairs: Sequence[tuple[Row, Row]], key: str) -> tuple[float, float]:
    """Return the means of a figure without and with time; NaN where it does not exist."""
    values = np.array([[row[key] for row in pair] for pair in pairs], dtype=float)
    return tuple(values.mean(axis=0))


def log_ratio(row: Row) -> float:
    return float(np.log(row["episodes"] / row["true_episodes"]))


def arrow(values: tuple[float, float]) -> str:
    return f"{values[0]:.3f} → {values[1]:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    help_text = "a folder with `sphere` and `wisdm` in it"
    parser.add_argument("--data", type=Path, default=DATA, help=help_text)
    help_text = f"only these, by name or a part of one: {', '.join(SETS)}"
    parser.add_argument("--sets", nargs="+", metavar="SET", help=help_text)
    help_text = "weigh only these in AutoLLP, by the names that it knows"
    parser.add_argument("--candidates", nargs="+", metavar="NAME", help=help_text)
    add_options(parser, "diaries.jsonl", rows=6100, seeds=2)
    given = parser.parse_args()
    given.sets = named(given.sets, list(SETS))
    chosen = [with_candidates(n, given.candidates) for n in named(given.methods, available())]
    file = ResultFile(given.results)
    if not given.summary:
        run(tasks_of(given, chosen), partial(draw, given.data), file, given, measured)
    rows = [
        row
        for row in current(file, given, chosen, DiaryTask)
        if row["data"] in given.sets and row["method"] in chosen
    ]
    rows.sort(
        key=lambda row: (given.sets.index(row["data"]), row["seed"], chosen.index(row["method"]))
    )
    good = [row for row in rows if "accuracy" in row]
    weighed = f" of {', '.join(given.candidates)}" if given.candidates else ""
    print(f"\ndiaries of at most {given.rows} rows, exact totals; AutoLLP{weighed}")
    print_cells(good, details=given.details)
    print_differences(good)
    print_failures(rows)
    if given.save_picture:
        draw_reliability(good, given.save_picture)


if __name__ == "__main__":
    main()
