"""Tensor descriptors that the host makes for TMA, as arguments of a launch."""

from __future__ import annotations

from typing import Any, Dict


def is_descriptor(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "TensorDescriptor" and kind.__module__.startswith("triton.tools")


def encode(descriptor: Any, view: int) -> Dict[str, Any]:
    """A value of kerncap/format/schema.py; ``view`` is that of the tensor."""
    return {
        "kind": "descriptor",
        "view": view,
        "shape": [int(n) for n in descriptor.shape],
        "strides": [int(n) for n in descriptor.strides],
        "block_shape": [int(n) for n in descriptor.block_shape],
        "padding": str(getattr(descriptor, "padding", "zero")),
    }
