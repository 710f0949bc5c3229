"""LP-LLP on the partitions of a Dask cluster."""
