"""Learning with label proportions: a label for every row when only group totals are known."""

from importlib.metadata import version

from apportion.bag_report import BagReport
from apportion.diagnose import Diagnosis, diagnose
from apportion.estimators import LPLLP, LabelPropagation
from apportion.exceptions import (
    AmbiguousTotalsWarning,
    BagDesignWarning,
    DuplicateRowsWarning,
    IsolatedRowsWarning,
    SupervisionError,
)
from apportion.graph import KNNGraph, PrecomputedGraph, RBFGraph
from apportion.totals import Totals

__version__ = version("apportion")

__all__ = [
    "LPLLP",
    "AmbiguousTotalsWarning",
    "BagDesignWarning",
    "BagReport",
    "Diagnosis",
    "DuplicateRowsWarning",
    "IsolatedRowsWarning",
    "KNNGraph",
    "LabelPropagation",
    "PrecomputedGraph",
    "RBFGraph",
    "SupervisionError",
    "Totals",
    "__version__",
    "diagnose",
]
