"""A case: one launch of one kernel, and what a sanitizer has to say about it.

What is expected stands beside the code: ``# BUG: oob argument=x_ptr`` at the end of a line, or on a
line of its own before it; several are joined by ``;``. ``# BUG(tail): …`` holds for the case
named ``tail`` of a kernel that is launched more than once. A kernel with no marker is clean.
``# PORTABLE:``, in the same form, marks what is right only by the zeros that targets put into left-out lanes.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Expected = tuple[str, int, "str | None"]  # check, line, argument
K = TypeVar("K")

_MARKER = re.compile(r"#\s*(BUG|PORTABLE)(?:\(([\w, ]+)\))?:\s*(.+?)\s*$")
_ONE = re.compile(r"^(\w+)(?:\s+argument=(\w+|-))?$")


@dataclass(frozen=True, eq=False)
class Case:
    """``fresh`` names the tensors that nobody wrote before the launch; ``bounds`` as in Options.

    ``huge``: tensors that stand for much larger ones of the given shape, which are never allocated.
    """

    name: str
    module: str
    kernel: Any
    grid: Any
    arguments: dict[str, Any]
    fresh: tuple[str, ...]
    bounds: str
    huge: dict[str, tuple[int, ...]]
    oracle: bool  # False: Triton's interpreter cannot run it
    heavy: bool  # brute force takes long: only in a campaign
    expected: frozenset[Expected]
    by_habit: frozenset[Expected]

    @property
    def buggy(self) -> bool:
        return bool(self.expected)

    def __repr__(self) -> str:
        return self.name


CASES: dict[str, Case] = {}


def case(
    grid: Any,
    name: str = "",
    fresh: str = "",
    bounds: str = "storage",
    huge: dict[str, tuple[int, ...]] | None = None,
    oracle: bool = True,
    heavy: bool = False,
    also: tuple[Any, ...] = (),
    **arguments: Any,
) -> Callable[[K], K]:
    """Register a launch of the kernel below. ``also``: functions that it calls, for their markers."""

    def register(kernel: K) -> K:
        function = plain_function(kernel)
        full = function.__name__ + (f"[{name}]" if name else "")
        assert full not in CASES, full
        announced = [markers(one, name) for one in (function, *map(plain_function, also))]
        CASES[full] = Case(
            full, function.__module__, kernel, grid, arguments, tuple(fresh.split()), bounds, huge or {},
            oracle, heavy,
            *(frozenset().union(*(one[word] for one in announced)) for word in ("BUG", "PORTABLE")),
        )  # fmt: skip
        return kernel

    return register


def plain_function(kernel: Any) -> Any:
    """The Python function below `triton.jit`, `triton.autotune` and `triton.heuristics`."""
    while not inspect.isfunction(kernel):
        kernel = kernel.fn
    return kernel


_source_of = functools.cache(inspect.getsourcelines)


def markers(function: Any, case_name: str) -> dict[str, set[Expected]]:
    """The findings that the comments in a function's source announce for one case of it, by their word."""
    lines, first = _source_of(function)
    found: dict[str, set[Expected]] = {"BUG": set(), "PORTABLE": set()}
    for number, line in enumerate(lines, first):
        marker = _MARKER.search(line)
        if marker is None:
            continue
        kind, names, announced = marker.groups()
        if names is not None and case_name not in names.replace(",", " ").split():
            continue
        at = number + 1 if line.lstrip().startswith("#") else number
        for one in announced.split(";"):
            parsed = _ONE.match(one.strip())
            assert parsed is not None, f"{function.__name__}, line {number}: {line.strip()}"
            argument = parsed[2]
            found[kind].add((parsed[1], at, None if argument in (None, "-") else argument))
    return found


def load_all() -> dict[str, Case]:
    """Import every file of the suite; all cases by name."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in ("__init__", "cases", "tensors"):
            importlib.import_module(f"{__package__}.{path.stem}")
    return {name: one for name, one in CASES.items() if one.module.startswith(f"{__package__}.")}


# --- under the sanitizer ---------------------------------------------------------------------------


class KnownWritten:
    """A launch's contents with what is known of who wrote them: all of a storage, or nothing of it.

    Of ``huge`` storages nothing can be read.
    """

    def __init__(self, contents: Any, fresh: set[int], huge: set[int]) -> None:
        self._contents = contents
        self._fresh = fresh
        self._huge = huge

    def read(self, storage: int) -> Any:
        return None if storage in self._huge else self._contents.read(storage)

    def unwritten(self, storage: int) -> Any:
        from kerncap.sanitizer.launch import Unwritten

        contents = self.read(storage)
        return None if contents is None else Unwritten.of(np.full(contents.size, storage not in self._fresh))


def launches(one: Case) -> Iterator[Any]:
    """The launches of a case, as the front end makes them, with their tensors' freshness and sizes."""
    from kerncap.sanitizer.launch import DescriptorArgument, TensorArgument
    from kerncap.sanitizer.sources.triton_call import launches_of

    for launch in launches_of(one.kernel, one.grid, (), dict(one.arguments)):
        fresh: set[int] = set()
        huge: set[int] = set()
        arguments = list(launch.arguments)
        storages = list(launch.storages)
        for position, argument in enumerate(launch.arguments):
            tensor = argument.tensor if isinstance(argument, DescriptorArgument) else argument
            if not isinstance(tensor, TensorArgument):
                continue
            if argument.name in one.fresh:
                fresh.add(tensor.storage)
            if argument.name in one.huge:
                huge.add(tensor.storage)
                arguments[position], storages[tensor.storage] = _enlarged(
                    tensor, storages[tensor.storage], one.huge[argument.name]
                )
        yield dataclasses.replace(
            launch,
            arguments=tuple(arguments),
            storages=tuple(storages),
            contents=KnownWritten(launch.contents, fresh, huge),
        )


def _enlarged(tensor: Any, storage: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """A contiguous tensor of ``shape`` at addresses that nothing else has, and its storage."""
    strides = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    size = tensor.itemsize * shape[0] * strides[0]
    address = (1 << 46) + (tensor.storage << 42)
    tensor = dataclasses.replace(tensor, address=address, shape=shape, strides=tuple(strides))
    return tensor, dataclasses.replace(
        storage, address=address, size_bytes=size, allocation_address=address, allocation_bytes=size
    )


def run_case(one: Case) -> list[Any]:
    """The sanitizer's reports, one per launch."""
    from kerncap.sanitizer.engine import sanitize
    from kerncap.sanitizer.options import Options

    options = Options(bounds=one.bounds)  # type: ignore[arg-type]
    return [sanitize(launch, options) for launch in launches(one)]
