"""Data to try things on."""

from apportion.datasets.make_bags import make_bags
from apportion.datasets.smart_home import SmartHome, make_smart_home
from apportion.datasets.sphere import (
    AMBULATORY_OR_SEDENTARY,
    FIVE_GROUPS,
    SphereWindows,
    load_sphere,
)
from apportion.datasets.synthetic import make_drifting_clouds, make_half_kernel, make_xor

__all__ = [
    "AMBULATORY_OR_SEDENTARY",
    "FIVE_GROUPS",
    "SmartHome",
    "SphereWindows",
    "load_sphere",
    "make_bags",
    "make_drifting_clouds",
    "make_half_kernel",
    "make_smart_home",
    "make_xor",
]
