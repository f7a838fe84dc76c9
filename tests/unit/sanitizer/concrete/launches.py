"""From a case to the launch that the evaluator takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.run import Memory, Outcome, evaluate
from kerncap.sanitizer.launch import Launch, ScalarArgument, Storage, TensorArgument
from kerncap.sanitizer.paged_bytes import Bytes, PagedBytes
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Module
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.concrete.cases import CASES, Case, Tensor

Array = np.ndarray[Any, Any]
NAMES = {"bf16": "bfloat16", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}


class Held:
    """The contents of storages, as arrays; None: not to be had."""

    def __init__(self, arrays: list[Array | None]) -> None:
        self.arrays = arrays

    def read(self, storage: int) -> PagedBytes | None:
        array = self.arrays[storage]
        return None if array is None else PagedBytes.of(array)

    def unwritten(self, storage: int) -> None:
        return None


def launch_of(
    text: str, grid: tuple[int, ...], arguments: Mapping[str, Any], absent: frozenset[str] = frozenset()
) -> Launch:
    """Every array a storage of its own; those in ``absent`` have no contents."""
    given: list[TensorArgument | ScalarArgument] = []
    storages: list[Storage] = []
    arrays: list[Array | None] = []
    for name, value in arguments.items():
        if not isinstance(value, Tensor | np.ndarray):
            given.append(ScalarArgument(name, value))
            continue
        data = value.data if isinstance(value, Tensor) else value
        dtype = NAMES.get(value.kind, str(data.dtype)) if isinstance(value, Tensor) else str(data.dtype)
        address = (len(storages) + 1) << 32
        storages.append(Storage(address, data.nbytes, address, data.nbytes, name))
        strides = tuple(s // data.itemsize for s in data.strides)
        given.append(
            TensorArgument(name, len(storages) - 1, address, dtype, data.itemsize, data.shape, strides)
        )
        arrays.append(None if name in absent else data.copy())
    x, y, z = (*grid, 1, 1, 1)[:3]
    return Launch("kernel", text, (x, y, z), tuple(given), tuple(storages), Held(arrays))


@cache
def module_of(name: str) -> Module:
    case = CASES[name]
    signature = {
        argument: f"*{value.kind}"
        if isinstance(value, Tensor)
        else "fp32"
        if isinstance(value, float)
        else "i32"
        for argument, value in case.arguments.items()
    }
    return read_module(ttir_of(case.kernel, signature, case.constants))


def bytes_after(memory: Memory) -> dict[int, Bytes]:
    """All bytes of the storages that were written to, by index; none of them is larger than a page."""
    return {storage: after for storage, runs in memory.changed().items() for _, _, after in runs}


def run(
    name: str, case: Case | None = None, absent: frozenset[str] = frozenset(), **options: Any
) -> tuple[Outcome, dict[str, Array]]:
    """How the evaluation ended, and the arrays that it changed."""
    case = case or CASES[name]
    module = module_of(name)
    launch = launch_of("", case.grid, case.arguments, absent)
    memory = Memory(launch)
    outcome = evaluate(module, module.kernel, launch, memory, **options)
    after: dict[str, Array] = {}
    for storage, data in bytes_after(memory).items():
        argument = launch.storages[storage].name
        before = case.arguments[argument]
        assert isinstance(before, Tensor)
        after[argument] = data.view(before.data.dtype).reshape(before.data.shape)
    return outcome, after
