"""Compile the kernels for GPUs, without one, and print how much shared memory each takes.

A script, because `TRITON_INTERPRET` must be 0 before Triton is imported.
"""

from __future__ import annotations

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from apportion.graphs import _bin_kernels, _kernel_sums

_TYPES = {"n_rows": "i32", "n_points": "i32", "per_split": "i32", "n_blocks": "i32"}
_TYPES |= dict.fromkeys(("Q", "X", "norms", "values", "limits"), "*fp32")
_TYPES |= dict.fromkeys(("points", "counts"), "*i32")
_TYPES |= dict.fromkeys(("F", "out"), "*fp64")

CAPABILITIES = (80, 90)
"""The GPUs to compile for: A100, and H100 or H200."""


def _shared_memory(kernel, module, capability, **sizes):
    """Return the bytes of shared memory that a compiled kernel takes."""
    sizes |= {"ROWS": module._ROWS, "COLUMNS": module._COLUMNS}
    signature = {name: _TYPES.get(name, "constexpr") for name in kernel.arg_names}
    constants = {name: sizes[name] for name in signature if name not in _TYPES}
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(ASTSource(kernel, signature, constants), target=target).metadata.shared


def main():
    shared = {}
    for capability in CAPABILITIES:
        most = shared.setdefault(capability, {})
        for D in (16, _bin_kernels.MOST_FEATURES):
            sizes = {"D": D, "SPLITS": _bin_kernels._SPLITS}
            for kernel in (_bin_kernels._bins, _bin_kernels._counts):
                most[f"{kernel.__name__} D={D}"] = _shared_memory(
                    kernel, _bin_kernels, capability, **sizes
                )
        for C in (1, 8):
            most[f"_sums C={C}"] = _shared_memory(
                _kernel_sums._sums, _kernel_sums, capability, D=20, C=C
            )
    print(json.dumps(shared))


if __name__ == "__main__":
    main()
