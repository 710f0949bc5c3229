"""Columns of a table as features: which ones, and the numbers they become."""

from apportion.features.choose import choose_columns
from apportion.features.recipe import Encoded, Feature, Recipe, learn_recipe

__all__ = ["Encoded", "Feature", "Recipe", "choose_columns", "learn_recipe"]
