"""The methods that `AutoLLP` weighs: what they are called, and what they are fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from apportion._utils.memory import free_bytes, readable
from apportion._utils.method_names import LP_LLP
from apportion.estimators import (
    EMLLP,
    LPLLP,
    AggregateGP,
    CountLogistic,
    InvCal,
    LabelPropagation,
    LaplacianMeanMap,
    MeanMap,
    PropSVM,
    WeightedKNN,
)
from apportion.estimators._base import learns_from_totals
from apportion.exceptions import Advice, counted, name_some
from apportion.model_selection._forests import FoldForests, HonestTrees, TaughtTrees

_LINEAR = 0.3
"""The prior weight of a linear rule where bags are random. There are four of them, much alike, and
where the totals say little, rules that can bend are right more often: in bags of 64 rows, 0.1 and
0.3 have a mean accuracy .003 above that of 1 (15 tables of up to 1,000 rows), and 0.3 the smaller
worst regret. Where bags differ in their features, four views of the same differences are welcome:
on Adult in bags of the variants "hard" and "intermediate", 1 is better than 0.3 by .005 to .02."""


_NOT_A_MEAN_MAP = 0.1
"""The prior weight of other methods where bags differ in their class shares only (label shift), as
mean maps assume. Chosen on Adult in bags of the variant "simple"."""


@dataclass(frozen=True)
class Candidate:
    """A method, and how it is fitted.

    Attributes
    ----------
    name : str
        What it is called in reports.
    estimator : estimator
        The method, not fitted.
    first : str or None
        The candidate that is fitted first, because its answer is a parameter of this one.
    answer : str
        That parameter.
    standardized : bool
        Whether it is fitted to standardized features, or to the features as they are.
    most_rows : float
        The number of rows beyond which it would take too long, and is left out.
    linear : bool
        Whether its rule is linear in the features.
    mean_map : bool
        Whether it assumes that a class looks alike in every bag.
    forests : type or None
        The forests that find its probabilities of held-out rows, if it is one.
    races : bool
        Whether it is given up after two folds if it lags far behind.
    rough : mapping
        Parameters with which it is as good for an average, in less time.
    """

    name: str
    estimator: Any
    first: str | None = None
    answer: str = "prior"
    standardized: bool = False
    most_rows: float = np.inf
    linear: bool = False
    mean_map: bool = False
    forests: type[FoldForests] | None = None
    races: bool = False
    rough: Mapping[str, Any] = field(default_factory=dict)

    def prior_weight(self, *, random_bags: bool, label_shift: bool = False) -> float:
        """Return the weight, relative to others, before any total is held out.

        Parameters
        ----------
        random_bags : bool
            Whether the features do not differ from bag to bag.
        label_shift : bool
            Whether bags differ in their class shares only.
        """
        if label_shift:
            return 1.0 if self.mean_map else _NOT_A_MEAN_MAP
        return _LINEAR if random_bags and self.linear else 1.0


_ROUGH: dict[str, Any] = {"tol": 1e-3, "max_iter": 60}
"""Of the count likelihood: more digits change no accuracy on 30 tables."""


_CLOSE_ENOUGH: dict[str, Any] = {"tol": 1e-4}
"""The largest gradient per row at which mean maps stop, instead of 1e-8: on 36,000 rows of Adult,
the accuracy for new rows is the same, .854, in a fifth of the time."""


NAMED = {
    one.name: replace(one, standardized=True)
    for one in (
        Candidate("gp", AggregateGP(("linear", "rbf", "laplacian")), rough={"max_rank": 400}),
        Candidate("gp-trees", AggregateGP("trees"), rough={"n_estimators": 100}),
        Candidate("lpllp", LPLLP()),
        Candidate("lpllp-gp", LPLLP(prior_weight=1.0), first="gp"),
        Candidate(
            "trees",
            EMLLP("trees", cross_fit=4),
            first="gp",
            answer="start",
            forests=HonestTrees,
            races=True,
        ),
        Candidate(
            "taught",
            EMLLP("trees", cross_fit=4, max_iter=1),
            answer="start",
            forests=TaughtTrees,
            races=True,
        ),
        Candidate("mean-map", MeanMap(), linear=True, mean_map=True, rough=_CLOSE_ENOUGH),
        Candidate("mean-map-rbf", MeanMap("rbf"), mean_map=True),
        Candidate(
            "laplacian-mean-map",
            LaplacianMeanMap(),
            linear=True,
            mean_map=True,
            rough=_CLOSE_ENOUGH,
        ),
        Candidate("count", CountLogistic(), linear=True, rough=_ROUGH),
        Candidate("count-rbf", CountLogistic("rbf"), races=True, rough={"max_rank": 250, **_ROUGH}),
        Candidate("inv-cal", InvCal(), linear=True),
        Candidate("inv-cal-rbf", InvCal("rbf"), rough={"max_rank": 250, "tol": 1e-4}),
        Candidate("em", EMLLP()),
        Candidate("knn", WeightedKNN()),
        Candidate("label-propagation", LabelPropagation()),
        Candidate("prop-svm", PropSVM(), most_rows=2_000),
    )
}
"""The methods that can be asked for by name. Their estimators are cloned, and never fitted."""

DEFAULT = (
    "gp",
    "gp-trees",
    "inv-cal",
    "inv-cal-rbf",
    "mean-map",
    "laplacian-mean-map",
    "count",
    "count-rbf",
    "taught",
    "trees",
)
"""The candidates by default, the cheap ones first."""

FAST = "fast"
_FAST = ("gp", "gp-trees", "inv-cal", "inv-cal-rbf", "count-rbf", "lpllp")
"""What asks for the methods that take seconds, and these: solved in closed form, the graph, and
`count-rbf`. Without it, .92 and not .96 of the labels of the demo are right, in twice the time,
because `lpllp` is then not given up, and .75 and not .99 of those of vowel in bags of 16."""

WITHOUT_FOLDS = (
    "gp",
    "gp-trees",
    "lpllp",
    "lpllp-gp",
    "trees",
    "count-rbf",
    "inv-cal-rbf",
    "mean-map",
    "laplacian-mean-map",
    "count",
    "inv-cal",
)
"""The candidates where there are too few bags to hold any out, and all have the same weight."""


_BYTES_PER_ROW, _PER_FEATURE, _PER_CLASS = 17_500, 80, 100
"""What a fit of `gp` or `gp-trees`, and of others beside, takes per row. Measured above what the
data take: 1.8 GiB for 100,000 rows of 20 features and three classes, with one thread or two, 2.1
with 60 features, 1.9 with ten classes; 3.5 for 200,000 rows and two classes. Below 50,000 rows it
is up to twice as much, because kernel features are kept: 0.4 GiB for 10,000, 1.6 for 50,000."""

TAKES_MEMORY = ("gp", "gp-trees")

MEMORY = "Memory: "
"""How the sentence begins that says how much memory a fit takes."""


def memory_note(n_samples: int, n_features: int, n_classes: int) -> str:
    """Return how much memory a fit will take, in words, if it is more than half of what is free."""
    per_row = _BYTES_PER_ROW + _PER_FEATURE * n_features + _PER_CLASS * n_classes
    needed, free = n_samples * per_row, free_bytes()
    if free is None or needed <= free / 2:
        return ""
    facts = (
        f"{MEMORY}comparing methods on {n_samples:,} rows of {counted(n_features, 'feature')} "
        f"takes about {readable(needed)}, and {readable(free)} are free."
    )
    return Advice(facts, f"Use {{method:{LP_LLP}}}, which takes a tenth of it, or fewer rows.")


def resolve_candidates(asked: Any, *, few_bags: bool = False) -> list[Candidate]:
    """Return the candidates that were asked for, each after the one that it needs.

    Parameters
    ----------
    asked : "auto", "fast", sequence of names and estimators, or mapping of names to estimators
        See `AutoLLP`.
    few_bags : bool
        Whether there are too few bags to hold any out.
    """
    if isinstance(asked, str) and asked == "auto":
        asked = WITHOUT_FOLDS if few_bags else DEFAULT
    elif isinstance(asked, str) and asked == FAST:
        found = [NAMED[name] for name in _FAST]
        return found if few_bags else [_in_seconds(candidate) for candidate in found]
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise _not_candidates(asked)
    pairs = asked.items() if isinstance(asked, Mapping) else ((None, item) for item in asked)
    candidates: dict[str, Candidate] = {}
    for name, item in pairs:
        candidate = _candidate(name, item, candidates)
        if candidate.first is not None and candidate.first not in candidates:
            candidates[candidate.first] = NAMED[candidate.first]
        candidates[candidate.name] = candidate
    if not candidates:
        raise _not_candidates(asked)
    return list(candidates.values())


def _in_seconds(candidate: Candidate) -> Candidate:
    """Return a candidate as the fast methods have it: `LPLLP` without edges in time, and raced."""
    if not isinstance(candidate.estimator, LPLLP):
        return candidate
    return replace(candidate, races=True, rough={"time_weight": 0.0})


def _candidate(name: str | None, item: Any, taken: Mapping[str, Candidate]) -> Candidate:
    if isinstance(item, str) and item in NAMED:
        return NAMED[item]
    if isinstance(item, str | type) or not (hasattr(item, "fit") and learns_from_totals(item)):
        raise _not_candidates(item)
    if name is None:
        name = kind = type(item).__name__
        number = 2
        while name in taken:
            name, number = f"{kind}-{number}", number + 1
    return Candidate(str(name), clone(item))


def _not_candidates(got: Any) -> ValueError:
    return ValueError(
        "The 'candidates' parameter of AutoLLP must be 'auto', 'fast', or a list or mapping of "
        f"names ({name_some(map(repr, NAMED), len(NAMED))}) and estimators with "
        f"fit(X, y, bags=, proportions=) and predict_proba. Got {got!r} instead."
    )
