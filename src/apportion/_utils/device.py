"""The device that work on rows is done on: a GPU through torch, or the processor without it."""

from __future__ import annotations

import os
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from shutil import which
from traceback import clear_frames
from typing import Any

from apportion._utils.memory import readable
from apportion._utils.parameters import one_of
from apportion.exceptions import Advice, DeviceWarning, users_level

DEVICES = one_of("cpu", "cuda", "auto")
"""The values of the parameter `device`."""

INSTEAD_OF_DEVICE = "Use {device:cpu}, {graph:anchor} or fewer rows."
"""What to do about rows that do not fit on a device, as a hint."""


def torch_device(device: str, *, quiet: bool = False) -> Any:
    """Return the torch device to work on; None for the processor, which needs no torch.

    `"auto"` takes a GPU if torch is installed and sees one. `"cuda"` warns if there is none, unless
    `quiet`, and the processor is used.
    """
    if device == "cpu":
        return None
    if find_spec("torch") is None:
        if device == "cuda":
            raise ModuleNotFoundError(
                Advice("", "{device:cuda} needs torch: install apportion[gpu].")
            )
        return None
    gpu = _gpu()
    if gpu is None and device == "cuda" and not quiet:
        facts = "torch sees no GPU: the processor is used, with the same labels."
        remedy = "Install a build of torch for CUDA and the GPU's driver, or use {device:auto}."
        warnings.warn(DeviceWarning(Advice(facts, remedy)), stacklevel=users_level())
    return gpu


def _gpu() -> Any:
    """Return the GPU that torch sees, or None."""
    import torch

    if not torch.cuda.is_available():
        return None
    return torch.device("cuda", torch.cuda.current_device())


def triton_runs(device: Any) -> bool:
    """Return whether kernels in Triton run on a device; Triton needs a C compiler for that."""
    compiler = os.environ.get("CC") or which("gcc") or which("clang")
    return device.type == "cuda" and find_spec("triton") is not None and compiler is not None


def free_on_device(device: Any) -> int | None:
    """Return the free bytes of a GPU, torch's reserve included; None for the machine's memory."""
    if device.type != "cuda":
        return None
    import torch

    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


def refuse_on_device(
    what: str, n_rows: int, bytes_of: Callable[[int], int], device: Any, instead: str
) -> None:
    """Raise a MemoryError, before anything is allocated, if rows do not fit on a GPU.

    Parameters
    ----------
    what : str
        What needs the memory, for the message.
    n_rows : int
        The number of rows.
    bytes_of : callable
        From a number of rows to the bytes that they take.
    device : torch.device
        The device.
    instead : str
        What to use instead, as a hint with parameters in braces.
    """
    free, needed = free_on_device(device), int(bytes_of(n_rows))
    if free is not None and needed > free:
        facts = (
            f"{what} needs {readable(needed)} on the GPU and {readable(free)} are free there; "
            "nothing was allocated."
        )
        raise MemoryError(Advice(facts, _what_fits(n_rows, bytes_of, free, instead)))


@contextmanager
def out_of_memory_explained(
    n_rows: int, bytes_of: Callable[[int], int], device: Any, instead: str
) -> Iterator[None]:
    """Turn torch's error for a GPU that is full into one that says how many rows would fit."""
    if device is None:
        yield
        return
    free: int | None = 0
    try:
        free = free_on_device(device)
        yield
        return
    except RuntimeError as error:
        if free is None or not _says_that_memory_is_full(error):
            raise
        clear_frames(error.__traceback__)  # they would keep the tensors of the fit alive
    facts = f"The GPU has too little memory for {n_rows:,} rows: {readable(free)} were free."
    raise MemoryError(Advice(facts, _what_fits(n_rows, bytes_of, free, instead)))


def _says_that_memory_is_full(error: RuntimeError) -> bool:
    """Return whether torch, one of CUDA's libraries or Triton ran out of memory."""
    text = str(error)
    return (
        type(error).__name__ == "OutOfMemoryError"
        or "out of memory" in text
        or "ALLOC_FAILED" in text
    )


def _what_fits(n_rows: int, bytes_of: Callable[[int], int], free: int, instead: str) -> str:
    if bytes_of(n_rows) <= free:  # an estimate, which was too low
        return instead
    rows = bisect_right(range(n_rows), free, key=bytes_of) - 1
    return f"About {max(rows, 0):,} such rows fit. {instead}"
