"""The choice of a graph by the number of rows and features."""

from __future__ import annotations

from apportion._utils.device import torch_device
from apportion._utils.memory import free_bytes, readable
from apportion.graphs._neighbors import TREE_FEATURES
from apportion.graphs.anchor import AnchorGraph
from apportion.graphs.base import Graph
from apportion.graphs.knn import KNNGraph

_MOST_ROWS = 1_000_000
_MOST_ROWS_IN_A_TREE = 5_000_000
_MOST_ROWS_ON_A_GPU = 4_000_000
_BYTES_PER_ROW = 1600
"""The memory that a nearest-neighbor graph and the solver need, beside the features."""


def choose_graph(n_samples: int, n_features: int, *, device: str = "cpu") -> tuple[Graph, str]:
    """Choose a graph by the number of rows and features.

    Nearest neighbors are chosen if they can be searched in a few minutes and fit into memory, else
    anchors. The dense graph is never chosen: nearest neighbors are as accurate or better.

    Parameters
    ----------
    n_samples, n_features : int
        The number of rows and of features.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where neighbors would be searched: a GPU finds those of more rows.

    Returns
    -------
    graph : Graph
        The graph, not fitted.
    reason : str
        Why it was chosen.

    Examples
    --------
    >>> graph, why = choose_graph(1_000, 20)
    >>> why
    'KNNGraph: 1,000 rows of 20 features are no more than the 1,000,000 whose nearest neighbors are
    found in minutes'
    """
    most = _MOST_ROWS_IN_A_TREE if n_features <= TREE_FEATURES else _MOST_ROWS
    if torch_device(device, quiet=True) is not None:
        most = max(most, _MOST_ROWS_ON_A_GPU)
    size = f"{n_samples:,} rows of {n_features:,} features"
    if n_samples > most:
        return AnchorGraph(device=device), (
            f"AnchorGraph: {size} are more than the {most:,} whose nearest neighbors are found in "
            "minutes"
        )
    needed, free = n_samples * (_BYTES_PER_ROW + 16 * n_features), free_bytes()
    if free is not None and needed > free:
        return AnchorGraph(device=device), (
            f"AnchorGraph: nearest neighbors of {size} need about {readable(needed)}, and "
            f"{readable(free)} are free"
        )
    return KNNGraph(device=device), (
        f"KNNGraph: {size} are no more than the {most:,} whose nearest neighbors are found in "
        "minutes"
    )
