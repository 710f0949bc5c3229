"""Choose without labels: hold out whole bags, and see how well their totals are met.

`AutoLLP` weighs methods, `CalibratedLLP` calibrates one, `ProportionSearchCV` chooses parameters.

scikit-learn's own searches and cross-validation work with the same folds and scorers after
`sklearn.set_config(enable_metadata_routing=True)`, which passes bags and totals on.
"""

from apportion.model_selection._accuracy import Estimate, EstimatedAccuracy
from apportion.model_selection.auto_llp import AutoLLP
from apportion.model_selection.calibrated_llp import CalibratedLLP
from apportion.model_selection.candidate_report import CandidateReport, WeighedCandidate
from apportion.model_selection.folds import BagKFold
from apportion.model_selection.scorers import METRICS, ProportionScorer
from apportion.model_selection.search import ProportionSearchCV

__all__ = [
    "METRICS",
    "AutoLLP",
    "BagKFold",
    "CalibratedLLP",
    "CandidateReport",
    "Estimate",
    "EstimatedAccuracy",
    "ProportionScorer",
    "ProportionSearchCV",
    "WeighedCandidate",
]
