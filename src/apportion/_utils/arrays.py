"""Arrays of rows: NumPy arrays in memory, or torch tensors on a device.

Code that works on both takes its functions from `namespace` and makes new arrays with the functions
here. Annotations name NumPy's arrays; with a device, tensors of the same shape take their place.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def is_tensor(array: Any) -> bool:
    """Return whether an array is a torch tensor, without importing torch."""
    return type(array).__module__.partition(".")[0] == "torch"


def namespace(array: Any) -> Any:
    """Return the module whose functions work on an array: NumPy, or `tensors` for a tensor.

    Examples
    --------
    >>> namespace(np.ones(3)).__name__
    'numpy'
    """
    if not is_tensor(array):
        return np
    from apportion._utils import tensors

    return tensors


def row_softmax(logits: Any) -> Any:
    """Return the softmax of every row of a NumPy array.

    NumPy reduces short rows slowly; columns are added here, in a tenth of the time.

    Examples
    --------
    >>> row_softmax(np.log([[1.0, 3.0], [2.0, 2.0]])).round(6)
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    columns = np.ascontiguousarray(np.transpose(logits))
    columns = np.exp(columns - columns.max(axis=0))
    columns /= columns.sum(axis=0)
    return np.ascontiguousarray(columns.T)


def to_device(array: Any, device: Any) -> Any:
    """Return an array on a torch device; as it is if there is none."""
    if device is None or is_tensor(array):
        return array
    import torch

    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)


def to_numpy(array: Any) -> Any:
    """Return an array in memory."""
    return np.asarray(array.cpu().numpy()) if is_tensor(array) else array


def beside(array: Any, like: Any) -> Any:
    """Return an array where another one is, in memory or on its device."""
    return to_device(array, like.device) if is_tensor(like) else to_numpy(array)


def zeros(shape: tuple[int, ...] | int, like: Any, dtype: type = float) -> Any:
    """Return an array of zeros, where another one is."""
    return full(shape, dtype(0), like)


def full(shape: tuple[int, ...] | int, value: Any, like: Any) -> Any:
    """Return an array of one value, of the type of that value, where another array is."""
    if not is_tensor(like):
        return np.full(shape, value)
    import torch

    dtype = torch.float64 if isinstance(value, float) else None
    return torch.full(
        (shape,) if isinstance(shape, int) else shape, value, dtype=dtype, device=like.device
    )


def arange(n: int, like: Any) -> Any:
    """Return 0 … n-1, where another array is."""
    if not is_tensor(like):
        return np.arange(n)
    import torch

    return torch.arange(n, device=like.device)


def as_float(array: Any) -> Any:
    """Return numbers or truth values in double precision."""
    return array.double() if is_tensor(array) else array.astype(np.float64)


def as_int(array: Any) -> Any:
    """Return whole numbers or truth values as integers of 64 bits."""
    return array.long() if is_tensor(array) else array.astype(np.int64)


def copied(array: Any) -> Any:
    """Return a copy of an array, where it is."""
    return array.clone() if is_tensor(array) else array.copy()


def one_hot(labels: Any, n_classes: int) -> Any:
    """Return one row per label, with a 1 in the column of its class."""
    if not is_tensor(labels):
        return np.eye(n_classes)[labels]
    import torch

    return torch.eye(n_classes, dtype=torch.float64, device=labels.device)[labels]


_MOST_TOGETHER = 2**14
"""Matrices of which a GPU's library finds eigenvalues at a time: it fails with more than 2¹⁵."""


def pseudo_inverses(matrices: Any, singular: float) -> Any:
    """Return the pseudo-inverses of symmetric matrices without negative eigenvalues.

    Eigenvalues below a share of a matrix's largest are 0.

    Examples
    --------
    >>> pseudo_inverses(np.array([[[4.0]], [[0.0]]]), 1e-9)
    array([[[0.25]],
    <BLANKLINE>
           [[0.  ]]])
    """
    xp = namespace(matrices)
    if matrices.shape[-1] == 1:
        positive = matrices > 0
        return xp.where(positive, 1.0 / xp.where(positive, matrices, 1.0), 0.0)
    starts = range(0, max(len(matrices), 1), _MOST_TOGETHER)
    parts = (matrices[start : start + _MOST_TOGETHER] for start in starts)
    return xp.concatenate([xp.linalg.pinv(part, singular, hermitian=True) for part in parts])


def first_of_equals(keys: Any) -> tuple[Any, Any, Any]:
    """Return the first position of every different key, each key's number, and their counts.

    Keys are numbered in their order.

    Examples
    --------
    >>> first_of_equals(np.array([5, 3, 5]))
    (array([1, 0]), array([1, 0, 1]), array([1, 2]))
    """
    if not is_tensor(keys):
        return np.unique(keys, return_index=True, return_inverse=True, return_counts=True)[1:]
    in_order, order = keys.sort(stable=True)
    new = full(len(keys), True, keys)
    new[1:] = in_order[1:] != in_order[:-1]
    number = keys.new_empty(len(keys))
    number[order] = new.cumsum(0) - 1
    return order[new], number, number.bincount()
