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


def torch_device(device: str, *, quiet: bool = False) -> Any:
    """Return the torch device to work on; None for the processor, which needs no torch.

    `"auto"` takes a GPU if torch is installed and sees one. `"cuda"` warns if there is none, unless
    `quiet`, and the processor is used.
    """
    if device == "cpu":
        return None
    if find_spec("torch") is None:
        if device == "cuda":
            raise ModuleNotFoundError("device='cuda' needs torch: install apportion[gpu].")
        return None
    found = _gpu()
    if found is not None:
        return found
    if device == "cuda" and not quiet:
        warnings.warn(
            "device='cuda' was asked for, and torch sees no GPU: the processor is used, with the "
            "same labels. Install a build of torch for CUDA and its driver, or use device='auto'.",
            DeviceWarning,
            stacklevel=users_level(),
        )
    return None


def _gpu() -> Any:
    """Return the GPU that torch sees, or None."""
    import torch

    return torch.device("cuda") if torch.cuda.is_available() else None


def free_on_device(device: Any) -> int | None:
    """Return the free bytes of a GPU, torch's reserve included; None for the machine's memory."""
    if device.type != "cuda":
        return None
    import torch

    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


def triton_runs(device: Any) -> bool:
    """Return whether kernels in Triton run on a device."""
    return device.type == "cuda" and find_spec("triton") is not None


def refuse_on_device(what: str, needed: int, device: Any, instead: str) -> None:
    """Raise a MemoryError, before anything is allocated, if `needed` bytes are not free there."""
    free = free_on_device(device)
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} needs {readable(needed)} on the GPU and {readable(free)} are free there; "
            f"nothing was allocated. {instead}"
        )
