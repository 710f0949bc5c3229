"""Columns of a table as features: which ones, and the numbers they become."""

from apportion._io.features.choose import choose_columns
from apportion._io.features.recipe import Encoded, Feature, Recipe, learn_recipe
from apportion._io.features.timestamps import Clock

__all__ = ["Clock", "Encoded", "Feature", "Recipe", "choose_columns", "learn_recipe"]
