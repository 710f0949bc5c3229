"""Save and load fitted models: a zip of JSON and arrays without pickle, so that no code is run."""

from apportion.persistence._files import SavedModel, contains_rows, load_model, save_model

__all__ = ["SavedModel", "contains_rows", "load_model", "save_model"]
