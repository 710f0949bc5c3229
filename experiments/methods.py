"""The methods of the comparison, each set up once for all tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators import EMLLP, LPLLP, InvCal, MeanMap, PropSVM
from apportion.metrics import bag_majority
from apportion.model_selection import AutoLLP, ProportionSearchCV
from apportion.supervision.totals import Totals
from experiments.trials import Method, Problem


def fitted_labels(
    estimator: Any, X: FloatArray, bags: IntArray, totals: Totals, seed: int
) -> AnyArray:
    """Return the labels that a clone of the estimator finds with this seed."""
    model = clone(estimator).set_params(random_state=seed)
    return model.fit(X, bags=bags, proportions=totals).transduction_


def prop_svm(X: FloatArray, bags: IntArray, totals: Totals, seed: int) -> AnyArray:
    """alter-∝SVM with an RBF kernel; C by the totals of held-out bags, then 10 starts."""
    model = PropSVM("rbf", n_starts=2, random_state=seed)
    search = ProportionSearchCV(model, {"C": [0.1, 1.0, 10.0]}, refit=False)
    search.fit(X, bags=bags, proportions=totals)
    chosen = PropSVM("rbf", n_starts=10, **search.best_params_)
    return fitted_labels(chosen, X, bags, totals, seed)


def em_llp(X: FloatArray, bags: IntArray, totals: Totals, seed: int) -> AnyArray:
    """Twenty rounds of EM, of a logistic regression on RBF features, from MeanMap's start."""
    rule = make_pipeline(
        StandardScaler(), Nystroem(n_components=50, random_state=seed), LogisticRegression()
    )
    model = EMLLP(rule, start=MeanMap("rbf"), max_iter=20)
    return fitted_labels(model, X, bags, totals, seed)


def majority(X: FloatArray, bags: IntArray, totals: Totals, seed: int) -> AnyArray:
    """Every row by its bag's most frequent class."""
    return bag_majority(bags, totals)


def supervised(problem: Problem, seed: int) -> AnyArray:
    """Extremely randomized trees that see the labels of all other folds."""
    trees = ExtraTreesClassifier(random_state=seed)
    labels = problem.y.copy()
    for fold in np.unique(problem.folds[problem.folds >= 0]):
        mine = problem.folds == fold
        labels[mine] = trees.fit(problem.X[~mine], problem.y[~mine]).predict(problem.X[mine])
    return labels


METHODS: dict[str, Method] = {
    # As we recommend it: every default.
    "lp-llp": Method("LP-LLP", partial(fitted_labels, LPLLP()), seconds=0.3),
    # Eleven methods, averaged; three or four bags are too few to weigh them by.
    "auto": Method("AutoLLP", partial(fitted_labels, AutoLLP()), seconds=2.0),
    # Every row's most likely class, for classes that overlap.
    "lp-llp-threshold": Method(
        "LP-LLP threshold", partial(fitted_labels, LPLLP(decode="threshold")), seconds=0.3
    ),
    # Algorithm 2 as printed: dense RBF graph, γ by f̄ᵀSf̄, no factor (1-α), labels by threshold.
    "lp-llp-literal": Method(
        "LP-LLP literal",
        partial(fitted_labels, LPLLP("rbf", solver="literal", decode="threshold", tol=1e-4)),
        seconds=1.1,
    ),
    "prop-svm": Method("∝SVM", prop_svm, seconds=1.8),
    "inv-cal": Method("InvCal", partial(fitted_labels, InvCal("rbf")), seconds=0.02),
    "mean-map": Method("MeanMap", partial(fitted_labels, MeanMap("rbf")), seconds=0.1),
    "em": Method("EMLLP", em_llp, seconds=0.4),
    "majority": Method("bag majority", majority, seconds=0.001),
    "supervised": Method("supervised", supervised, sees_labels=True, seconds=0.5),
}
