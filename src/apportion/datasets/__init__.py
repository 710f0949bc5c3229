"""Data to try things on."""

from apportion.datasets.make_bags import make_bags
from apportion.datasets.synthetic import make_drifting_clouds, make_xor

__all__ = ["make_bags", "make_drifting_clouds", "make_xor"]
