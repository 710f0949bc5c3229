"""Choose parameters without labels: hold out whole bags, and score how well their totals are met.

scikit-learn's own searches and cross-validation work with the same folds and scorers after
`sklearn.set_config(enable_metadata_routing=True)`, which passes bags and totals on.
"""

from apportion.model_selection.folds import BagKFold
from apportion.model_selection.scorers import METRICS, ProportionScorer
from apportion.model_selection.search import ProportionSearchCV

__all__ = ["METRICS", "BagKFold", "ProportionScorer", "ProportionSearchCV"]
