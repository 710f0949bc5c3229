"""Learning with label proportions: a label for every row when only group totals are known."""

import apportion._utils.signals  # noqa: F401  before all that takes a second to load

# isort: split

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apportion._io.parquet import read_rows
    from apportion.active import BagSuggestions, RowSuggestions, suggest_bags, suggest_rows
    from apportion.bag_report import BagReport
    from apportion.estimators import (
        EMLLP,
        LPLLP,
        AggregateGP,
        CountLogistic,
        InvCal,
        LabelPropagation,
        LaplacianMeanMap,
        MeanMap,
        PropSVM,
        WeightedKNN,
    )
    from apportion.exceptions import (
        AmbiguousTotalsWarning,
        BagDesignWarning,
        CandidateWarning,
        DeviceWarning,
        DiaryError,
        DuplicateRowsWarning,
        EpisodesWarning,
        FileError,
        InputError,
        IsolatedRowsWarning,
        MissedNeighborsWarning,
        OutputError,
        SavedModelError,
        SupervisionError,
    )
    from apportion.graphs import AnchorGraph, KNNGraph, PrecomputedGraph, RBFGraph
    from apportion.labeling import label_table
    from apportion.model_selection import AutoLLP, CalibratedLLP
    from apportion.report import write_report
    from apportion.supervision.diagnosis import Diagnosis, diagnose
    from apportion.supervision.totals import Totals

    __version__: str

__all__ = [
    "EMLLP",
    "LPLLP",
    "AggregateGP",
    "AmbiguousTotalsWarning",
    "AnchorGraph",
    "AutoLLP",
    "BagDesignWarning",
    "BagReport",
    "BagSuggestions",
    "CalibratedLLP",
    "CandidateWarning",
    "CountLogistic",
    "DeviceWarning",
    "Diagnosis",
    "DiaryError",
    "DuplicateRowsWarning",
    "EpisodesWarning",
    "FileError",
    "InputError",
    "InvCal",
    "IsolatedRowsWarning",
    "KNNGraph",
    "LabelPropagation",
    "LaplacianMeanMap",
    "MeanMap",
    "MissedNeighborsWarning",
    "OutputError",
    "PrecomputedGraph",
    "PropSVM",
    "RBFGraph",
    "RowSuggestions",
    "SavedModelError",
    "SupervisionError",
    "Totals",
    "WeightedKNN",
    "__version__",
    "diagnose",
    "label_table",
    "read_rows",
    "suggest_bags",
    "suggest_rows",
    "write_report",
]

# Names are imported when they are first used (PEP 562): scikit-learn alone takes a CPU-second to
# load, which a command such as `apportion --help` must not wait for. No submodule may be called
# like a public name: importing it would put the module in the place of that name.
_DEFINED_IN = {
    "active": "BagSuggestions RowSuggestions suggest_bags suggest_rows",
    "bag_report": "BagReport",
    "supervision.diagnosis": "Diagnosis diagnose",
    "estimators": "AggregateGP CountLogistic EMLLP InvCal LPLLP LabelPropagation "
    "LaplacianMeanMap MeanMap PropSVM WeightedKNN",
    "exceptions": "AmbiguousTotalsWarning BagDesignWarning CandidateWarning DeviceWarning "
    "DiaryError DuplicateRowsWarning EpisodesWarning FileError InputError IsolatedRowsWarning "
    "MissedNeighborsWarning OutputError SavedModelError SupervisionError",
    "labeling": "label_table",
    "graphs": "AnchorGraph KNNGraph PrecomputedGraph RBFGraph",
    "model_selection": "AutoLLP CalibratedLLP",
    "_io.parquet": "read_rows",
    "report": "write_report",
    "supervision.totals": "Totals",
}
_MODULE_OF = {name: module for module, names in _DEFINED_IN.items() for name in names.split()}
_PUBLIC_MODULES = (
    "active",
    "context",
    "datasets",
    "distributed",
    "estimators",
    "exceptions",
    "graphs",
    "labeling",
    "metrics",
    "model_selection",
    "persistence",
    "plotting",
    "report",
    "supervision",
)
_RENAMED = {
    "MissedNeighboursWarning": "MissedNeighborsWarning",
    "graph": "graphs",
    "plots": "plotting",
}
"""Names of 0.1.0 that still work, with a warning, until 0.3.0."""


def __getattr__(name: str) -> Any:
    """Return a public name or module, imported at its first use."""
    if name in _RENAMED:
        new_name = _RENAMED[name]
        warnings.warn(
            f"apportion.{name} is called apportion.{new_name} now; the old name will be removed in "
            "0.3.0.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(import_module("apportion"), new_name)
    if name in _MODULE_OF:
        value = getattr(import_module(f"apportion.{_MODULE_OF[name]}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("apportion")
    elif name in _PUBLIC_MODULES:
        value = import_module(f"apportion.{name}")
    else:
        raise AttributeError(f"module 'apportion' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PUBLIC_MODULES})
