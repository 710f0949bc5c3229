"""scikit-learn's own checks, run over every estimator.

No check is expected to fail. scikit-learn itself skips the one of array-API input, which our
estimators do not claim to support.
"""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from apportion import LPLLP, LabelPropagation


@parametrize_with_checks(
    [LPLLP(), LPLLP(graph="rbf", decode="threshold"), LabelPropagation()],
)
def test_sklearn_checks(estimator, check):
    check(estimator)
