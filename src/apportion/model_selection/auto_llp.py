"""AutoLLP: several methods, weighed by held-out totals."""

from __future__ import annotations

from typing import Any

from apportion.model_selection._candidates import Candidate, resolve_candidates
from apportion.model_selection._weighing import WeighingClassifier


class AutoLLP(WeighingClassifier):
    """The average of several methods, weighted and calibrated by the totals of held-out bags.

    No method is the best on all data. Every candidate learns without a fold of whole bags, and
    predicts the class probabilities P of their rows; the totals of these bags tell how accurate it
    is. What depends on the rows alone is computed once for all candidates and folds, and the folds
    of a candidate are solved in threads. Its probabilities become `P_t ∝ exp(t log P + s)`, with a
    posterior over temperatures t and between-bag variances ρ by the likelihood of the held-out
    totals, and shifts s that meet the overall class shares. The candidates are averaged with
    weights that fall with this likelihood; differences of less than 3 in the log-likelihood are
    taken for noise, and weights below 0.02 are 0. The average is calibrated in the same way,
    reconciled with the bags and decoded. No label is looked at unless it is given.

    Candidates with forests, and `count-rbf`, are given up after two folds if they lag far behind.
    Without times, the average is smoothed on a graph of similar rows before it is reconciled, if
    held-out totals become clearly likelier by that.

    An interrupt (Ctrl-C) keeps the methods that are complete, and a warning says which these are; a
    second one ends the fit.

    If the totals of random bags do not show that the methods know more than the class shares, new
    rows get the class shares, and a warning says so. With fewer than 5 bags none is held out: if
    the labels of `LPLLP` are much smoother than labels under totals drawn at random, it answers
    alone; else the average of all candidates is its prior, and a warning says so.

    Parameters
    ----------
    candidates : "auto", "fast", list or mapping, default="auto"
        The methods: names, such as `"taught"` or `"gp"`, and estimators with
        `fit(X, y, bags=, proportions=)` and `predict_proba`, in any mixture. A mapping gives names
        to estimators. `"auto"` is ten methods, or eleven with fewer than 5 bags; `"fast"` is those
        that are solved in closed form, `"count-rbf"` and `"lpllp"`. Methods given by name see
        standardized features, clipped at three standard deviations; estimators see X as it is. See
        the user guide for all names.
    cv : int or "auto", default="auto"
        The number of folds of whole bags. `"auto"` is 5. Beyond 20,000 rows, at most 3 of the folds
        are held out, and no more than are needed for 200 bags.
    decode : {"quota", "threshold", "sequence"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag; or, with times, so that the counts are kept and
        labels change as seldom as activities do. `predict` without totals does not use it.
    n_jobs : int, optional
        The number of processes that fit the folds of estimators that are not of this library, of
        its graph methods other than `LPLLP`, and of those with a graph, prior or start of their
        own; None = 1, -1 = all processors. All others work in threads, on all processors.
    random_state : int, RandomState or None, default=None
        The seed of the candidates that have none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Calibrated probabilities of the fitted rows, under their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    estimated_accuracy_ : EstimatedAccuracy
        How many labels are right, for new rows and for the fitted rows, with an interval; withheld
        with a reason where the totals leave it open.
    weights_ : dict of str to float
        The candidates' weights.
    held_out_log_likelihood_ : dict of str to float
        The log-likelihood of the held-out totals under each candidate, minus that of a model that
        knows the class shares only.
    candidate_report_ : CandidateReport
        Weights, log-likelihoods, temperatures and times, and what was left out or smoothed;
        `print` it, or take `to_frame()`.
    candidates_ : dict of str to estimator
        The candidates that have a weight, fitted to all bags: what `predict_proba` needs of them,
        without reports of their own.
    held_out_proba_ : ndarray of shape (n_samples, n_classes)
        Calibrated probabilities by candidates that did not see the row's totals; NaN for rows that
        were never held out.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.

    References
    ----------
    Y. Yao, A. Vehtari, D. Simpson, A. Gelman, "Using Stacking to Average Bayesian Predictive
    Distributions", Bayesian Analysis 13, 2018, on weights by held-out likelihoods.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from apportion.datasets import make_bags
    >>> X, y = load_wine(return_X_y=True)
    >>> bags, totals = make_bags(X, y, 12, random_state=0)
    >>> model = AutoLLP(["gp", "lpllp"], random_state=0).fit(X, bags=bags, proportions=totals)
    >>> float((model.transduction_ == y).mean()) > 0.9
    True
    >>> sorted(model.weights_)
    ['gp', 'lpllp']
    """

    def __init__(
        self,
        candidates: Any = "auto",
        *,
        cv: int | str = "auto",
        decode: str = "quota",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.candidates = candidates
        self.cv = cv
        self.decode = decode
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _asked_candidates(self, *, few_bags: bool = False) -> list[Candidate]:
        return resolve_candidates(self.candidates, few_bags=few_bags)

    def _sk_visual_block_(self) -> Any:
        """Return the candidates for the diagram of scikit-learn, once fitted with their weights."""
        # Private to scikit-learn; without it, its diagram falls back to a single block.
        from sklearn.utils._repr_html.estimator import _VisualBlock

        if hasattr(self, "candidates_"):
            found = self.candidates_
            names = [f"{name}, weight {self.weights_[name]:.2f}" for name in found]
            return _VisualBlock("parallel", list(found.values()), names=names)
        asked = self._asked_candidates()
        return _VisualBlock("parallel", [c.estimator for c in asked], names=[c.name for c in asked])
