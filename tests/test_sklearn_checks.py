"""scikit-learn's own checks, run over every estimator.

No check is expected to fail. scikit-learn itself skips the one of array-API input, which our
estimators do not claim to support.
"""

from __future__ import annotations

import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AutoLLP,
    CountLogistic,
    InvCal,
    LabelPropagation,
    LaplacianMeanMap,
    MeanMap,
    PropSVM,
    WeightedKNN,
)

pytestmark = pytest.mark.slow


@parametrize_with_checks(
    [
        LPLLP(),
        LPLLP(graph="rbf", decode="threshold"),
        LPLLP(graph="anchor"),
        LabelPropagation(),
        WeightedKNN(),
        InvCal(),
        InvCal("rbf"),
        PropSVM(n_starts=2),
        PropSVM("linear", n_starts=2),
        MeanMap(),
        MeanMap("rbf"),
        CountLogistic(),
        LaplacianMeanMap(),
        AggregateGP(n_estimators=10),
        EMLLP(),
        AutoLLP(["mean-map", "inv-cal"]),
        EMLLP(DecisionTreeClassifier(max_depth=5)),
        EMLLP(DecisionTreeRegressor(max_depth=5), cross_fit=3, start="debiased"),
        EMLLP("trees", cross_fit=2, max_iter=1),
    ],
)
def test_sklearn_checks(estimator, check):
    check(estimator)
