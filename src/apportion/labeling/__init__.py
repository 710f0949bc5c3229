"""Label the rows of a table: what the command line does, callable from Python."""

from apportion.labeling.predict import predict_table
from apportion.labeling.settings import LabelSettings, read_settings, write_settings
from apportion.labeling.table import LabeledTable, PredictedTable, label_table

__all__ = [
    "LabelSettings",
    "LabeledTable",
    "PredictedTable",
    "label_table",
    "predict_table",
    "read_settings",
    "write_settings",
]
