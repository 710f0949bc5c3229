"""The estimators, one class per module."""

from apportion.estimators.aggregate_gp import AggregateGP
from apportion.estimators.count_logistic import CountLogistic
from apportion.estimators.em_llp import EMLLP
from apportion.estimators.inv_cal import InvCal
from apportion.estimators.label_propagation import LabelPropagation
from apportion.estimators.laplacian_mean_map import LaplacianMeanMap
from apportion.estimators.lp_llp import LPLLP
from apportion.estimators.mean_map import MeanMap
from apportion.estimators.prop_svm import PropSVM
from apportion.estimators.weighted_knn import WeightedKNN

__all__ = [
    "EMLLP",
    "LPLLP",
    "AggregateGP",
    "CountLogistic",
    "InvCal",
    "LabelPropagation",
    "LaplacianMeanMap",
    "MeanMap",
    "PropSVM",
    "WeightedKNN",
]
