"""scikit-learn's own checks, run over every estimator."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from apportion import LPLLP, LabelPropagation

EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


def expected_failures(estimator: Any) -> dict[str, str]:
    return EXPECTED_FAILURES.get(type(estimator).__name__, {})


@parametrize_with_checks(
    [LPLLP(), LPLLP(graph="rbf", decode="threshold"), LabelPropagation()],
    expected_failed_checks=expected_failures,
)
def test_sklearn_checks(estimator, check):
    check(estimator)
