"""Choosing parameters without labels: whole bags are held out, and their totals tell how good.

scikit-learn's own searches and cross-validation work with the same folds and scorers, once
`sklearn.set_config(enable_metadata_routing=True)` lets bags and totals through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import BaseCrossValidator, GridSearchCV, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from apportion._core.decode import quota
from apportion._core.projection import reconcile
from apportion._io.identifiers import factorize
from apportion._utils.hashing import hash_ranks
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.exceptions import SupervisionError
from apportion.graphs import Graph, KNNGraph
from apportion.metrics import bag_deviances, bag_errors, soft
from apportion.supervision.bags import match_bags
from apportion.supervision.totals import as_totals, sorted_classes

METRICS = ("absolute_error", "deviance", "smoothness")


class BagKFold(BaseCrossValidator):
    """K folds of whole bags, of about equal numbers of rows.

    Rows in no bag are never held out.

    Parameters
    ----------
    n_splits : int, default=5
        The number of folds.
    shuffle : bool, default=False
        Deal the bags in random order, each to the fold that has fewest rows; else larger bags come
        first, equally large ones in the order of their ids.
    random_state : int, RandomState or None, default=None
        Draws the order, with `shuffle`.

    Examples
    --------
    >>> folds = BagKFold(2).split(range(6), bags=["a", "a", "b", "b", "c", None])
    >>> [(train.tolist(), test.tolist()) for train, test in folds]
    [([2, 3, 5], [0, 1, 4]), ([0, 1, 4, 5], [2, 3])]
    """

    __metadata_request__split = {"bags": True, "groups": True}  # noqa: RUF012

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, bags: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows to fit and the rows held out, fold by fold.

        Parameters
        ----------
        X : array-like
            Rows.
        y : ignored
            Labels play no part.
        groups, bags : array-like of shape (n_samples,)
            Bag ids, under either name.
        """
        folds = self._folds(groups if bags is None else bags, _num_samples(X))
        for fold in range(self.n_splits):
            held_out = folds == fold
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **_: Any) -> int:
        """Return the number of folds."""
        return self.n_splits

    def _folds(self, bags: Any, n_samples: int) -> IntArray:
        """Return the fold of every row, -1 for rows in no bag."""
        if bags is None:
            raise SupervisionError(
                "BagKFold",
                "no bag ids",
                "one id a row",
                "pass bags=... to split; to scikit-learn's searches as well, with "
                "sklearn.set_config(enable_metadata_routing=True)",
            )
        codes, ids = factorize(bags, "bag id")
        if len(codes) != n_samples:
            raise ValueError(f"`bags` has {len(codes)} values for {n_samples} rows of X.")
        if not (isinstance(self.n_splits, int | np.integer) and 2 <= self.n_splits <= len(ids)):
            raise ValueError(
                f"The 'n_splits' parameter of BagKFold must be an int from 2 to the number of "
                f"bags, {len(ids)}. Got {self.n_splits!r} instead."
            )
        sizes = np.bincount(codes[codes >= 0], minlength=len(ids))
        order = sorted_classes(ids)[1]
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        else:
            order = order[np.argsort(-sizes[order], kind="stable")]
        fold_of, filled = np.full(len(ids) + 1, -1), np.zeros(self.n_splits)
        for bag in order:
            fold_of[bag] = np.argmin(filled)
            filled[fold_of[bag]] += sizes[bag]
        return np.asarray(fold_of[codes])


class ProportionScorer(BaseEstimator):
    """A scorer that looks at the totals of the rows it is given, never at labels; higher is better.

    Parameters
    ----------
    metric : {"absolute_error", "deviance", "smoothness"}, default="absolute_error"
        `"absolute_error"`: minus the mean share of a bag's rows that would have to change class to
        meet its totals, of the labels that `predict` gives. `"deviance"`: minus the multinomial
        (here equal to the Poisson) deviance per row of the bags' counts, given the mean
        probabilities. `"smoothness"`: how often neighbors agree, 1 at most, when every bag gets
        exactly its counts by the probabilities.
    graph : Graph, optional
        The graph of neighbors for `"smoothness"`, by default `KNNGraph()`, fitted to the rows that
        are scored as they come in: a pipeline's scaler has not seen them.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion import MeanMap
    >>> X, bags = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]]), [0, 0, 0, 1, 1, 1]
    >>> totals = np.array([1 / 3, 2 / 3])
    >>> model = MeanMap().fit(X, bags=bags, proportions=totals)
    >>> score = ProportionScorer("absolute_error")
    >>> abs(round(score(model, X, bags=bags, proportions=totals), 3))
    0.0
    """

    __metadata_request__score = {  # noqa: RUF012
        "bags": True,
        "proportions": True,
        "estimator": UNUSED,
    }

    def __init__(self, metric: str = "absolute_error", *, graph: Graph | None = None) -> None:
        self.metric = metric
        self.graph = graph

    def __call__(self, estimator: Any, X: Any, y: Any = None, **params: Any) -> float:
        """Return the score, in the way scikit-learn calls a scorer."""
        return self.score(estimator, X, y, **params)

    def score(
        self, estimator: Any, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None
    ) -> float:
        """Return the score of a fitted estimator on rows in bags with known totals.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `predict`, or with `predict_proba` for all metrics but the first.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : ignored
            Labels play no part.
        bags, proportions
            Bag ids and totals of the rows.
        """
        if self.metric not in METRICS:
            raise ValueError(
                f"The 'metric' parameter of ProportionScorer must be one of "
                f"{', '.join(map(repr, METRICS))}. Got {self.metric!r} instead."
            )
        if bags is None or proportions is None:
            raise SupervisionError(
                "the scorer",
                "no `bags` and `proportions`",
                "both",
                "pass them; in scikit-learn's searches, set_config(enable_metadata_routing=True)",
            )
        classes = np.asarray(estimator.classes_)
        matched = match_bags(_num_samples(X), None, bags, proportions, classes=classes)
        if self.metric == "absolute_error":
            return -float(bag_errors(soft(estimator.predict(X), classes), matched).mean())
        P = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        if self.metric == "deviance":
            return -float(bag_deviances(P, matched).sum() / max(matched.groups.sizes.sum(), 1.0))
        if self.graph is None and get_tags(estimator).input_tags.pairwise:
            raise ValueError(
                "The 'smoothness' of an estimator on precomputed similarities needs neighbors, "
                "and these rows hold similarities, not features. Use 'deviance' instead."
            )
        graph = (KNNGraph() if self.graph is None else clone(self.graph)).fit(np.asarray(X))
        ranks = hash_ranks(np.asarray(X) if graph.sees_features else None, len(P))
        labels = quota(reconcile(P, matched), matched, ranks).labels
        return graph.label_smoothness(labels, len(classes))


class _FunctionScorer(ProportionScorer):
    """A function of (estimator, X, y, bags=, proportions=) as a scorer that asks for its totals."""

    def __init__(self, function: Callable[..., float]) -> None:
        self.function = function

    def score(
        self, estimator: Any, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None
    ) -> float:
        """Return what the function returns."""
        return float(self.function(estimator, X, y, bags=bags, proportions=proportions))


def _best_has(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


class ProportionSearchCV(MetaEstimatorMixin, BaseEstimator):
    """The face of `GridSearchCV` for bags and totals: no label is looked at.

    Whole bags are held out, and a candidate's score is how well it meets their totals.

    Parameters
    ----------
    estimator : estimator
        With `fit(X, y=None, *, bags, proportions)`; or a pipeline that ends in one.
    param_grid : dict or list of dict
        Parameter names and the values to try.
    scoring : {"absolute_error", "deviance", "smoothness"} or callable, default="absolute_error"
        See `ProportionScorer`; or a function of (estimator, X, y, bags=, proportions=) that returns
        a number, the higher the better.
    n_jobs : int, optional
        How many fits run side by side.
    refit : bool, default=True
        Fit the best candidate to all rows.
    cv : int, splitter or None, default=None
        How to hold out bags: a number of folds, or a splitter such as `BagKFold(shuffle=True)`. By
        default 5 folds, or as many as there are bags.
    verbose : int, default=0
        How much of the progress to print: 1 the number of fits, 2 and more a line a fit.
    error_score : "raise" or number, default="raise"
        What a failed fit scores. By default its error is raised.
    return_train_score : bool, default=False
        Whether `cv_results_` has the scores on the fitted bags too.

    Attributes
    ----------
    best_estimator_ : estimator
        The best candidate, fitted to all rows.
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its mean score on held-out bags.
    best_index_ : int
        Its place in `cv_results_`.
    cv_results_ : dict
        Parameters, scores and times of all candidates, as in `GridSearchCV`.
    transduction_, label_distributions_, bag_report_
        Those of the best candidate.
    scorer_ : callable
        The scorer.
    n_splits_ : int
        The number of folds.
    refit_time_ : float
        Seconds of the last fit.
    search_ : GridSearchCV
        The search that did the work.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from apportion import InvCal
    >>> from apportion.datasets import make_bags
    >>> X, grower = load_wine(return_X_y=True)
    >>> crates, totals = make_bags(None, grower, n_bags=10, random_state=0)
    >>> search = ProportionSearchCV(InvCal(), {"kernel": ["linear", "rbf"]})
    >>> search.fit(scale(X), bags=crates, proportions=totals).best_params_
    {'kernel': 'linear'}
    """

    __metadata_request__fit = {"bags": True, "proportions": True}  # noqa: RUF012
    __metadata_request__predict = {"bags": True, "proportions": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"bags": True, "proportions": True}  # noqa: RUF012
    __metadata_request__score = {"bags": True, "proportions": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        scoring: Any = "absolute_error",
        n_jobs: int | None = None,
        refit: bool = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = "raise",
        return_train_score: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.cv = cv
        self.verbose = verbose
        self.error_score = error_score
        self.return_train_score = return_train_score

    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Try every combination of parameters on every fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows, for fitting; None or NaN = not known. They are not used to score.
        bags : array-like of shape (n_samples,)
            Bag ids; missing = in no bag.
        proportions : Totals, dataframe, mapping or array
            The bags' totals.

        Returns
        -------
        ProportionSearchCV
            The search.
        """
        matched = match_bags(_num_samples(X), y, bags, proportions)
        if len(matched.ids) < 2:
            raise SupervisionError(
                "`bags`",
                "one bag alone" if matched.ids else "no bags",
                "two bags or more, as whole bags are held out",
                "pass bags=... and proportions=..., or set the parameters by hand",
            )
        totals = as_totals(proportions)
        search = GridSearchCV(
            self.estimator,
            self.param_grid,
            scoring=self._scorer(),
            n_jobs=self.n_jobs,
            refit=self.refit,
            cv=self._splits(X, y, bags, matched.codes),
            verbose=self.verbose,
            error_score=self.error_score,
            return_train_score=self.return_train_score,
        )
        with sklearn.config_context(enable_metadata_routing=True):
            self.search_ = search.fit(X, y, bags=bags, proportions=totals)
        for name in ("cv_results_", "best_index_", "best_params_", "best_score_", "n_splits_"):
            setattr(self, name, getattr(search, name))
        self.scorer_ = search.scorer_
        if self.refit:
            self.best_estimator_, self.refit_time_ = search.best_estimator_, search.refit_time_
        return self

    @property
    def classes_(self) -> AnyArray:
        """The classes, sorted."""
        return np.asarray(self._best().classes_)

    @property
    def transduction_(self) -> AnyArray:
        """The best candidate's labels of the fitted rows, under their totals."""
        return np.asarray(self._labeller().transduction_)

    @property
    def label_distributions_(self) -> FloatArray:
        """The best candidate's soft labels of the fitted rows."""
        return np.asarray(self._labeller().label_distributions_)

    @property
    def bag_report_(self) -> BagReport:
        """The best candidate's labels against the totals."""
        report: BagReport = self._labeller().bag_report_
        return report

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return int(self._best().n_features_in_)

    @property
    def feature_names_in_(self) -> AnyArray:
        """The names of the features, where rows came as a dataframe."""
        return np.asarray(self._best().feature_names_in_)

    def score(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> float:
        """Return the search's own score of the best candidate on these rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : ignored
            Labels play no part.
        bags, proportions
            Bag ids and totals of the rows.
        """
        return float(self.scorer_(self._best(), X, bags=bags, proportions=proportions))

    @available_if(_best_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any, *, bags: Any = None, proportions: Any = None) -> AnyArray:
        """Return the best candidate's labels, under the totals of the rows' bags where given."""
        return np.asarray(self._ask("predict", X, bags, proportions))

    @available_if(_best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, bags: Any = None, proportions: Any = None) -> FloatArray:
        """Return the best candidate's soft labels, under the totals of the bags where given."""
        return np.asarray(self._ask("predict_proba", X, bags, proportions))

    @available_if(_best_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Return the best candidate's decision function."""
        return np.asarray(self._best().decision_function(X))

    def _ask(self, method: str, X: Any, bags: Any, proportions: Any) -> Any:
        ask = getattr(self._best(), method)
        if bags is None and proportions is None:
            return ask(X)
        with sklearn.config_context(enable_metadata_routing=True):
            return ask(X, bags=bags, proportions=proportions)

    def _labeller(self) -> Any:
        """Return the best candidate, or the last step of a pipeline."""
        best = self._best()
        return best.steps[-1][1] if isinstance(best, Pipeline) else best

    def _best(self) -> Any:
        check_is_fitted(self, "search_")
        if not self.refit:
            raise AttributeError(
                "This search was made with refit=False: it has best_params_, but no fitted "
                "estimator. Fit one with these parameters, or search with refit=True."
            )
        return self.best_estimator_

    def _scorer(self) -> Any:
        if isinstance(self.scoring, str) and self.scoring in METRICS:
            return ProportionScorer(self.scoring)
        if not callable(self.scoring):
            raise ValueError(
                f"The 'scoring' parameter of ProportionSearchCV must be one of "
                f"{', '.join(map(repr, METRICS))} or a callable. Got {self.scoring!r} instead."
            )
        if hasattr(self.scoring, "get_metadata_routing"):
            return self.scoring
        return _FunctionScorer(self.scoring)

    def _splits(self, X: Any, y: Any, bags: Any, codes: IntArray) -> list[tuple[Any, Any]]:
        """Return the folds, or raise where one cuts a bag."""
        n_bags = int(codes.max()) + 1
        cv = min(5, n_bags) if self.cv is None else self.cv
        if isinstance(cv, int | np.integer):
            if not 2 <= cv <= n_bags:
                raise ValueError(
                    "The 'cv' parameter of ProportionSearchCV must be a number of folds from 2 to "
                    f"the number of bags, {n_bags}, or a splitter. Got {cv!r} instead."
                )
            cv = BagKFold(int(cv))
        splits = list(check_cv(cv).split(X, y, bags))
        for train, test in splits:
            cut = np.intersect1d(codes[train], codes[test])
            cut = cut[cut >= 0]
            if cut.size:
                row = int(np.flatnonzero(codes == cut[0])[0])
                raise SupervisionError(
                    "`cv`",
                    f"a fold that cuts the bag of row {row}: some of its rows are held out, others "
                    "fitted, while its totals are of all of them",
                    "folds of whole bags",
                    "use cv=5 or BagKFold(5)",
                )
        return splits

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.target_tags.required = False
        return tags
