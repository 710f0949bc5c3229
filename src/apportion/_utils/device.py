"""The device that work on rows is done on: a GPU through torch, or the processor without it."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

from apportion._utils.memory import readable
from apportion._utils.parameters import one_of
from apportion.exceptions import DeviceWarning, users_level

DEVICES = one_of("cpu", "cuda", "auto")
"""The values of the parameter `device`."""


def torch_device(device: str) -> Any:
    """Return the torch device to work on; None for the processor, which needs no torch.

    `"auto"` takes a GPU if torch is installed and sees one. `"cuda"` warns if there is none, and
    the processor is used.
    """
    if device == "cpu":
        return None
    if find_spec("torch") is None:
        if device == "cuda":
            raise ModuleNotFoundError("device='cuda' needs torch: install apportion[gpu].")
        return None
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    if device == "cuda":
        warnings.warn(
            "device='cuda' was asked for, and torch sees no GPU: the processor is used, with the "
            "same labels. Install a build of torch for CUDA and its driver, or use device='auto'.",
            DeviceWarning,
            stacklevel=users_level(),
        )
    return None


def refuse_on_device(what: str, needed: int, device: Any, instead: str) -> None:
    """Raise a MemoryError, before anything is allocated, if `needed` bytes are not free there."""
    if device.type != "cuda":
        return
    import torch

    free = torch.cuda.mem_get_info(device)[0]
    if needed > free:
        raise MemoryError(
            f"{what} needs {readable(needed)} on the GPU and {readable(free)} are free there; "
            f"nothing was allocated. {instead}"
        )
