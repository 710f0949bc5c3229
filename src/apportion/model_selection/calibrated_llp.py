"""CalibratedLLP: the probabilities of one method, calibrated by held-out totals."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from apportion._utils.parameters import parameter_error
from apportion.estimators import LPLLP
from apportion.estimators._base import learns_from_totals
from apportion.model_selection._candidates import Candidate
from apportion.model_selection._weighing import WeighingClassifier


class CalibratedLLP(WeighingClassifier):
    """A method whose probabilities are calibrated by the totals of held-out bags.

    The estimator learns without each of several folds of whole bags. Its probabilities P of
    their rows become `P_t ∝ exp(t log P + s)`, with a posterior over the temperature t by the
    likelihood of their totals; see `AutoLLP`, which does this for several methods and averages
    them. With fewer than 5 bags nothing is held out, and the probabilities stay as they are.

    Parameters
    ----------
    estimator : estimator, optional
        A method with `fit(X, y, bags=, proportions=)` and `predict_proba`; by default `LPLLP()`.
    cv, decode, n_jobs, random_state
        See `AutoLLP`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Calibrated probabilities of the fitted rows, under their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    estimated_accuracy_ : EstimatedAccuracy
        How many labels are right, for new rows and for the fitted rows, with an interval.
    estimator_ : estimator
        The estimator, fitted to all bags; see `candidates_` of `AutoLLP`.
    candidate_report_, held_out_log_likelihood_, held_out_proba_, bag_report_, diagnosis_
        See `AutoLLP`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from apportion import MeanMap
    >>> from apportion.datasets import make_bags
    >>> X, y = load_wine(return_X_y=True)
    >>> bags, totals = make_bags(X, y, 12, random_state=0)
    >>> model = CalibratedLLP(MeanMap()).fit(X, bags=bags, proportions=totals)
    >>> model.predict_proba(X[:1]).shape
    (1, 3)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cv: int | str = "auto",
        decode: str = "quota",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.decode = decode
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def estimator_(self) -> Any:
        """The estimator, fitted to all bags."""
        return next(iter(self.candidates_.values()))

    def _asked_candidates(self, *, few_bags: bool = False) -> list[Candidate]:
        estimator = LPLLP() if self.estimator is None else self.estimator
        if isinstance(estimator, str | type) or not learns_from_totals(estimator):
            allowed = "None or an estimator with fit(X, y, bags=, proportions=) and predict_proba"
            raise parameter_error(self, "estimator", allowed)
        return [Candidate(type(estimator).__name__, clone(estimator))]
