"""A grid search without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.model_selection import GridSearchCV, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from apportion._utils.parameters import check_parameters, one_of, parameter_error
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.estimators._base import REQUESTS
from apportion.exceptions import SupervisionError
from apportion.model_selection.folds import BagKFold
from apportion.model_selection.scorers import METRICS, ProportionScorer
from apportion.supervision.bags import match_bags
from apportion.supervision.totals import as_totals


def _best_has(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


class ProportionSearchCV(MetaEstimatorMixin, BaseEstimator):
    """A grid search, as `GridSearchCV`, that uses bags and totals instead of labels.

    Whole bags are held out, and a candidate is scored by how well it meets their totals.

    Parameters
    ----------
    estimator : estimator
        An estimator with `fit(X, y=None, *, bags, proportions)`, or a pipeline that ends with one.
    param_grid : dict or list of dict
        Parameter names and the values to try.
    scoring : {"absolute_error", "deviance", "smoothness"} or callable, default="absolute_error"
        See `ProportionScorer`; or a function of (estimator, X, y, bags=, proportions=) that returns
        a number, where higher is better.
    n_jobs : int, optional
        The number of fits that run side by side.
    refit : bool, default=True
        Whether to fit the best candidate to all rows.
    cv : int, splitter or None, default=None
        A number of folds, or a splitter such as `BagKFold(shuffle=True)`. By default 5 folds, or
        as many as there are bags if these are fewer.
    verbose : int, default=0
        1 prints the number of fits, 2 and more print one line per fit.
    error_score : "raise" or number, default="raise"
        The score of a fit that fails. By default its error is raised.
    return_train_score : bool, default=False
        Whether `cv_results_` includes the scores on the fitted bags.

    Attributes
    ----------
    best_estimator_ : estimator
        The best candidate, fitted to all rows.
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its mean score on held-out bags.
    best_index_ : int
        Its position in `cv_results_`.
    cv_results_ : dict
        Parameters, scores and times of all candidates, as in `GridSearchCV`.
    classes_, transduction_, label_distributions_, bag_report_
        The attributes of the best candidate.
    scorer_ : callable
        The scorer.
    n_splits_ : int
        The number of folds.
    refit_time_ : float
        The seconds that the last fit took.
    search_ : GridSearchCV
        The underlying search.

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

    __metadata_request__fit = REQUESTS
    __metadata_request__predict = REQUESTS
    __metadata_request__predict_proba = REQUESTS
    __metadata_request__score = REQUESTS

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
            The rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows; None or NaN where unknown. They are used to fit, not to score.
        bags : array-like of shape (n_samples,)
            Bag ids; missing for rows in no bag.
        proportions : Totals, dataframe, mapping or array
            The totals of the bags.

        Returns
        -------
        ProportionSearchCV
            The fitted search.
        """
        matched = match_bags(_num_samples(X), y, bags, proportions)
        if len(matched.ids) < 2:
            raise SupervisionError(
                "",
                "one bag alone" if matched.ids else "no bags",
                "two bags or more, because whole bags are held out",
                "pass bags=... and proportions=..., or set the parameters by hand",
                parameter="bags",
            )
        totals = as_totals(proportions)
        folds = self._splits(X, y, bags, matched.codes)
        parameters = {**self.get_params(deep=False), "scoring": self._scorer(), "cv": folds}
        search = GridSearchCV(**parameters)
        with sklearn.config_context(enable_metadata_routing=True):
            self.search_ = search.fit(X, y, bags=bags, proportions=totals)
        names = [
            "cv_results_",
            "best_index_",
            "best_params_",
            "best_score_",
            "n_splits_",
            "scorer_",
        ]
        for name in [*names, "best_estimator_", "refit_time_"] if self.refit else names:
            setattr(self, name, getattr(search, name))
        return self

    @property
    def classes_(self) -> AnyArray:
        """The classes, sorted."""
        return self._best().classes_

    @property
    def transduction_(self) -> AnyArray:
        """The best candidate's labels of the fitted rows, under their totals."""
        return self._best_classifier().transduction_

    @property
    def label_distributions_(self) -> FloatArray:
        """The best candidate's soft labels of the fitted rows."""
        return self._best_classifier().label_distributions_

    @property
    def bag_report_(self) -> BagReport:
        """The best candidate's labels compared with the totals."""
        return self._best_classifier().bag_report_

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return self._best().n_features_in_

    @property
    def feature_names_in_(self) -> AnyArray:
        """The names of the features, if the rows came as a dataframe."""
        return self._best().feature_names_in_

    def score(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> float:
        """Return the score of the best candidate on these rows, by the scorer of the search.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : ignored
            Labels are not used.
        bags : array-like of shape (n_samples,)
            Bag ids of the rows.
        proportions : Totals, dataframe, mapping or array
            The totals of the bags.

        Returns
        -------
        float
            The score; higher is better.
        """
        return float(self.scorer_(self._best(), X, bags=bags, proportions=proportions))

    @available_if(_best_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any, *, bags: Any = None, proportions: Any = None) -> AnyArray:
        """Predict labels with the best candidate, under the totals of the rows' bags if given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        bags, proportions : optional
            Bag ids and totals of the new rows; see `LPLLP.predict`.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        return self._predicted("predict", X, bags, proportions)

    @available_if(_best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, bags: Any = None, proportions: Any = None) -> FloatArray:
        """Predict soft labels with the best candidate, under the totals of the bags if given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        bags, proportions : optional
            Bag ids and totals of the new rows; see `LPLLP.predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The soft labels, with columns in the order of `classes_`.
        """
        return self._predicted("predict_proba", X, bags, proportions)

    @available_if(_best_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision function of the best candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The values of the functions.
        """
        return self._best().decision_function(X)

    def _predicted(self, method: str, X: Any, bags: Any, proportions: Any) -> AnyArray:
        predict = getattr(self._best(), method)
        if bags is None and proportions is None:
            return predict(X)
        with sklearn.config_context(enable_metadata_routing=True):
            return predict(X, bags=bags, proportions=proportions)

    def _best_classifier(self) -> Any:
        """Return the best candidate, or the last step if it is a pipeline."""
        best = self._best()
        return best.steps[-1][1] if isinstance(best, Pipeline) else best

    def _best(self) -> Any:
        check_is_fitted(self, "search_")
        if not self.refit:
            raise AttributeError(
                "This search was made with refit=False: it has best_params_, but no fitted "
                "estimator. Fit an estimator with these parameters, or search with refit=True."
            )
        return self.best_estimator_

    def _scorer(self) -> Any:
        check_parameters(self, {"scoring": one_of(*METRICS, kind=Callable)})
        routed = hasattr(self.scoring, "get_metadata_routing")
        return self.scoring if routed else ProportionScorer(self.scoring)

    def _splits(self, X: Any, y: Any, bags: Any, codes: IntArray) -> list[tuple[Any, Any]]:
        """Return the folds; raise if one of them divides a bag."""
        n_bags = int(codes.max()) + 1
        cv = min(5, n_bags) if self.cv is None else self.cv
        if isinstance(cv, int | np.integer):
            if not 2 <= cv <= n_bags:
                allowed = f"a number of folds from 2 to the number of bags, {n_bags}, or a splitter"
                raise parameter_error(self, "cv", allowed)
            cv = BagKFold(int(cv))
        splits = list(check_cv(cv).split(X, y, bags))
        for train, test in splits:
            divided = np.setdiff1d(np.intersect1d(codes[train], codes[test]), [-1])
            if divided.size:
                row = int(np.argmax(codes == divided[0]))
                raise SupervisionError(
                    "",
                    f"a fold that divides the bag of row {row}: some of its rows are held out, "
                    "others fitted, while its totals are those of all its rows",
                    "folds of whole bags",
                    "use cv=5 or BagKFold(5)",
                    parameter="cv",
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
