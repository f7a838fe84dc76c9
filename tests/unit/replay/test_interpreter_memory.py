"""Loads and stores by the array are Triton's own, lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")

from triton.runtime import interpreter

from kerncap.replay.worker.torch_backend.interpreter_memory import Memory

_OWN = getattr(interpreter._interpreter, "_own", interpreter._interpreter)
_SIZES = (1, 2, 4, 8, 16)
_PLACES = {
    "in a row": lambda n, at, size: at + size * np.arange(n),
    "backwards": lambda n, at, size: at + size * np.arange(n)[::-1],
    "every second": lambda n, at, size: at + 2 * size * np.arange(n),
    "one": lambda n, at, size: np.full(n, at),
    "twice": lambda n, at, size: at + size * (np.arange(n) // 2),
    "scattered": lambda n, at, size: at + size * np.random.default_rng(n).permutation(n),
    "with a jump": lambda n, at, size: at + size * (np.arange(n) + (np.arange(n) > n // 2)),
}


class Watched:
    """Triton's own, and whether it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def load(self, *arguments: Any) -> Any:
        self.asked += 1
        return _OWN.load(*arguments)

    def store(self, *arguments: Any) -> None:
        self.asked += 1
        _OWN.store(*arguments)


def _launch(places: str, n: int, skew: int, size: int, rows: int) -> tuple[Any, Any, Any, Any, Any]:
    """Memory, and pointers into it, with a mask and values."""
    memory = np.random.default_rng(n).integers(0, 256, 4096, dtype=np.uint8)
    shape = (rows, n // rows)
    offsets = _PLACES[places](n, skew, size).astype(np.uint64).reshape(shape)
    values = np.random.default_rng(1).integers(0, 256, n * size, dtype=np.uint8)
    dtype = np.dtype(np.complex128 if size == 16 else f"u{size}")
    return memory, offsets, shape, values.view(dtype).reshape(shape), dtype


@given(
    places=st.sampled_from(sorted(_PLACES)),
    n=st.sampled_from([2, 4, 32, 64]),
    skew=st.integers(0, 17),
    size=st.sampled_from(_SIZES),
    rows=st.sampled_from([1, 2]),
    masked=st.sampled_from(["all", "none", "head", "odd"]),
)
def test_as_tritons_own(places: str, n: int, skew: int, size: int, rows: int, masked: str) -> None:
    memory, offsets, shape, values, dtype = _launch(places, n, skew, size, rows)
    numbers = np.arange(n).reshape(shape)
    mask = {
        "all": numbers >= 0, "none": numbers < 0, "head": numbers < n - 1, "odd": numbers % 2 == 1
    }[masked]  # fmt: skip
    found = []
    for own in (True, False):
        here = memory.copy()
        pointers = offsets + np.uint64(here.ctypes.data)
        module = _OWN if own else Memory(_OWN)
        loaded = module.load(pointers, mask, values, dtype)
        module.store(pointers, values, mask)
        found.append((loaded.dtype, loaded.shape, loaded.tobytes(), here.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("places", ["in a row", "every second", "with a jump"])
def test_ordinary_ones_are_done_by_the_array(places: str) -> None:
    memory, offsets, shape, values, dtype = _launch(places, 64, 0, 4, 1)
    own = Watched()
    mask = np.ones(shape, dtype=bool)
    pointers = offsets + np.uint64(memory.ctypes.data // 4 * 4)
    Memory(own).load(pointers, mask, values, dtype)
    Memory(own).store(pointers, values, mask)
    mask[0, -1] = False
    Memory(own).load(pointers, mask, values, dtype)
    Memory(own).store(pointers, values, mask)
    assert own.asked == 0


def test_what_is_loaded_is_a_copy() -> None:
    memory = np.zeros(64, dtype=np.uint8)
    pointers = memory.ctypes.data + np.arange(64, dtype=np.uint64)
    loaded = Memory(_OWN).load(pointers, np.ones(64, dtype=bool), memory, np.uint8)
    memory[:] = 1
    assert not loaded.any()
