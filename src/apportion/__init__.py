"""Learning with label proportions: a label for every row when only group totals are known."""

from apportion import _signals as _signals  # before all that takes a second to load

# isort: split

from importlib.metadata import version

from apportion.bag_report import BagReport
from apportion.diagnose import Diagnosis, diagnose
from apportion.estimators import (
    EMLLP,
    LPLLP,
    InvCal,
    LabelPropagation,
    MeanMap,
    PropSVM,
    WeightedKNN,
)
from apportion.exceptions import (
    AmbiguousTotalsWarning,
    BagDesignWarning,
    DiaryError,
    DuplicateRowsWarning,
    FileError,
    InputError,
    IsolatedRowsWarning,
    MissedNeighboursWarning,
    OutputError,
    SavedModelError,
    SupervisionError,
)
from apportion.graph import AnchorGraph, KNNGraph, PrecomputedGraph, RBFGraph
from apportion.parquet import read_rows
from apportion.report import write_report
from apportion.totals import Totals

__version__ = version("apportion")

__all__ = [
    "EMLLP",
    "LPLLP",
    "AmbiguousTotalsWarning",
    "AnchorGraph",
    "BagDesignWarning",
    "BagReport",
    "Diagnosis",
    "DiaryError",
    "DuplicateRowsWarning",
    "FileError",
    "InputError",
    "InvCal",
    "IsolatedRowsWarning",
    "KNNGraph",
    "LabelPropagation",
    "MeanMap",
    "MissedNeighboursWarning",
    "OutputError",
    "PrecomputedGraph",
    "PropSVM",
    "RBFGraph",
    "SavedModelError",
    "SupervisionError",
    "Totals",
    "WeightedKNN",
    "__version__",
    "diagnose",
    "read_rows",
    "write_report",
]
