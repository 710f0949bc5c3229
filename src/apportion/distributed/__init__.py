"""LP-LLP beyond one machine: the anchor graph over the partitions of a Dask cluster."""

from apportion.distributed.estimator import LPLLP

__all__ = ["LPLLP"]
