"""kerncap: one kernel launch of a running program, for anyone to run, edit and verify by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__version__ = "0.1.0"

_Kernel = TypeVar("_Kernel")


def invariant(*claims: str) -> Callable[[_Kernel], _Kernel]:
    """What a kernel takes for granted of its integer parameters; below ``@triton.jit``.

    ``@kerncap.invariant("0 < n", "n <= stride")``: `kerncap sanitize` checks each claim on a launch, and
    assumes it for all sizes. The kernel stays as it is.
    """
    return lambda kernel: kernel


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext kerncap`` in IPython and Jupyter calls."""
    from kerncap.notebook import load

    load(shell)
