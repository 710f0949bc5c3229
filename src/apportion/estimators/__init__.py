"""scikit-learn estimators."""

from apportion.estimators.label_propagation import LabelPropagation
from apportion.estimators.lp_llp import LPLLP

__all__ = ["LPLLP", "LabelPropagation"]
