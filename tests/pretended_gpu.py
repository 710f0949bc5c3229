"""A GPU that is pretended: tensors in memory that refuse what tensors on a GPU refuse.

torch's CPU device cannot show that rows in memory and rows on a device are mixed, because there
they are the same. Here, tensors that are sent to `cuda` carry a mark. Those with a mark do not work
together with those without one, nor become NumPy arrays but by `cpu()`. This is stricter than
torch, which lets an index be in memory and copies it at every use.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch.overrides import TorchFunctionMode

from apportion._utils import device as devices

GPU = torch.device("cuda", 0)

_ONLY_IN_MEMORY = {torch.Tensor.numpy, torch.Tensor.__array__}
_TERABYTE = 2**40


class MixedDevicesError(RuntimeError):
    """A tensor in memory and one on the pretended GPU meet."""


def on_gpu(value):
    """Return whether a value is a tensor on the pretended GPU."""
    return isinstance(value, torch.Tensor) and getattr(value, "_on_pretended_gpu", False)


class _PretendedGPU(TorchFunctionMode):
    """Gets every call of torch's functions, methods and properties."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = [*_leaves(args), *_leaves(kwargs.values())]
        here = any(map(on_gpu, leaves))
        if here and function == torch.Tensor.device.__get__:
            return GPU
        if here and function == torch.Tensor.is_cuda.__get__:
            return True
        if here and function in _ONLY_IN_MEMORY:
            raise TypeError("a tensor on the GPU is no NumPy array")
        for leaf in leaves if here else ():
            # A single number may be in memory.
            if isinstance(leaf, torch.Tensor) and leaf.dim() and not on_gpu(leaf):
                raise MixedDevicesError(f"{function.__name__} of tensors in memory and on the GPU")
        sent = any(isinstance(leaf, torch.device) and leaf.type == "cuda" for leaf in leaves)
        if sent:
            args = [_in_memory(value) for value in args]
            kwargs = {name: _in_memory(value) for name, value in kwargs.items()}
        result = function(*args, **kwargs)
        if function is torch.Tensor.cpu:
            return result.clone()  # without the mark
        if function is torch.Tensor.to and result is args[0]:
            result = result.clone()  # what is in memory stays without it
        for leaf in _leaves([result]) if here or sent else ():
            if isinstance(leaf, torch.Tensor):
                leaf._on_pretended_gpu = True
        return result


def _leaves(values):
    """Yield values, and those in lists and tuples among them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _in_memory(value):
    """Return torch's CPU device for any device, and any other value as it is."""
    return torch.device("cpu") if isinstance(value, torch.device) else value


@contextmanager
def pretended_gpu(monkeypatch):
    """Let the library see a pretended GPU with a terabyte of memory, and no Triton."""
    memory = {"mem_get_info": (_TERABYTE, _TERABYTE), "memory_reserved": 0, "memory_allocated": 0}
    with monkeypatch.context() as patched:
        for name, value in memory.items():
            patched.setattr(torch.cuda, name, lambda device, value=value: value)
        patched.setattr(devices, "_gpu", lambda: GPU)
        patched.setattr(
            devices, "find_spec", lambda name: find_spec(name) if name != "triton" else None
        )
        with _PretendedGPU():
            yield
