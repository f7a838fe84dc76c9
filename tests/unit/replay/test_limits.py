"""The limits of a captured launch's context, given to the worker's."""

from __future__ import annotations

from typing import cast

import pytest

from kerncap.replay.worker.cuda import driver as cu
from kerncap.replay.worker.cuda.context_limits import set_limits

bindings = pytest.importorskip("cuda.bindings.driver")
DEFAULTS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 4: 2048}
REFUSED = 1  # CUDA_ERROR_INVALID_VALUE


class Stub:
    """A driver that has these limits, and takes no heap of more than a GiB."""

    api = bindings

    def __init__(self) -> None:
        self.limits = dict(DEFAULTS)
        self.calls: list[int] = []

    def call(self, call: str, limit: int) -> int:
        assert call == "cuCtxGetLimit"
        return self.limits[limit]

    def status(self, call: str, limit: int, value: int) -> int:
        assert call == "cuCtxSetLimit"
        self.calls.append(limit)
        if limit == 2 and value > 1 << 30:
            return REFUSED
        self.limits[limit] = value
        return 0

    def error_name(self, status: int) -> str:
        return f"error {status}"


def limited(**limits: int) -> tuple[Stub, list[str]]:
    stub = Stub()
    names = ("stack_bytes", "heap_bytes", "print_bytes", "pending_launches")
    said = set_limits(cast(cu.Driver, stub), {**dict.fromkeys(names, 0), **limits})
    return stub, said


def test_what_differs_is_set() -> None:
    stub, notes = limited(stack_bytes=64 << 10, print_bytes=1 << 20, heap_bytes=256 << 20)
    assert stub.limits == {**DEFAULTS, 0: 64 << 10, 2: 256 << 20}
    assert stub.calls == [0, 2] and notes == []


def test_what_the_driver_refuses_is_said() -> None:
    stub, notes = limited(heap_bytes=4 << 30)
    assert stub.limits == DEFAULTS
    assert notes == ["the driver refuses a heap of 4,294,967,296 bytes for kernels here: error 1"]
