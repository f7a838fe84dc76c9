"""What `library_calls` launches, kept with the memory that each launch met; and pairs of it, judged."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncap.api.sanitize.program import LiveOptions, sanitize_command
from kerncap.errors import UsageError
from kerncap.sanitizer.equality.kernel_runs import kernel_of
from kerncap.sanitizer.equality.launch_sequence import in_sequence
from kerncap.sanitizer.equality.proof import Proof, prove
from kerncap.sanitizer.equality.same_memory import match
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.launch import Launch, TensorArgument, Unwritten
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.paged_bytes import PagedBytes

CALLS = Path(__file__).with_name("library_calls.py")
LIBRARIES = ("Liger", "FlagGems", "Inductor")


@dataclass(frozen=True)
class Kept:
    """What storages held when the launch was met."""

    arrays: list[npt.NDArray[np.uint8]]

    @classmethod
    def of(cls, launch: Launch) -> Kept:
        held = [launch.contents.read(index) for index in range(len(launch.storages))]
        return cls([np.zeros(0, np.uint8) if one is None else one.whole().copy() for one in held])

    def read(self, storage: int) -> PagedBytes | None:
        return PagedBytes.of(self.arrays[storage])

    def unwritten(self, storage: int) -> Unwritten | None:
        return None


@dataclass(frozen=True)
class Call:
    """``outputs``: addresses of what it gives back; ``error``: why it could not be made."""

    launches: tuple[Launch, ...]
    outputs: tuple[int, ...]
    error: str = ""


def calls(operations: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> dict[str, Call]:
    """By "OPERATION, LIBRARY"; all operations by default."""
    found: dict[str, list[Launch]] = {}

    def keep(launch: Launch, options: Options) -> LaunchReport:
        call = next(frame[2] for frame in launch.python_stack if frame[2].endswith(LIBRARIES))
        found.setdefault(call, []).append(replace(launch, contents=Kept.of(launch)))
        return LaunchReport(launch.kernel, launch.grid, ())

    options = LiveOptions(target="cuda:90", every_configuration=False, fresh=False)
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")
        command = [sys.executable, str(CALLS), str(said), *operations]
        done = sanitize_command(command, options, environment=environment or os.environ, engine=keep)
        if done.target_status:
            raise RuntimeError(f"library_calls.py ended with status {done.target_status}: {done.notes}")
        lines = [json.loads(line) for line in said.read_text(encoding="utf-8").splitlines()]
    return {
        line["call"]: Call(
            tuple(found.get(line["call"], ())), tuple(line.get("outputs", ())), line.get("error", "")
        )
        for line in lines
    }


def judged(first: Call, second: Call, labels: tuple[str, str]) -> Proof:
    """Whether two calls give back the same. Raises UsageError for calls whose tensors differ in layout."""
    one, other = (
        in_sequence(call.launches, label) for call, label in zip((first, second), labels, strict=True)
    )
    left = {}
    for output, against in zip(first.outputs, second.outputs, strict=True):
        x, y = _last_at(one, output), _last_at(other, against)
        if x is None or y is None:
            raise UsageError("an output is no argument of a launch")
        left[x] = y
    matched = match(one, other, {}, labels, left=left)
    return prove(kernel_of(*one), matched.kernel)


def _last_at(launches: Sequence[Launch], address: int) -> str | None:
    names = [
        one.name
        for launch in launches
        for one in launch.arguments
        if isinstance(one, TensorArgument) and one.address == address
    ]
    return names[-1] if names else None


@dataclass(frozen=True)
class Judged:
    operation: str
    libraries: tuple[str, str]
    proof: Proof | None
    why: str  # it could not be asked
    seconds: float


def pairs_of(made: Mapping[str, Call]) -> Iterator[Judged]:
    """Of each operation, every two libraries that have it."""
    operations = dict.fromkeys(name.rpartition(", ")[0] for name in made)
    for operation in operations:
        here = {one: made[f"{operation}, {one}"] for one in LIBRARIES if f"{operation}, {one}" in made}
        for libraries in itertools.combinations(here, 2):
            first, second = (here[one] for one in libraries)
            started, proof = time.perf_counter(), None
            why = first.error or second.error
            if not why:
                try:
                    proof = judged(first, second, libraries)
                except UsageError as error:
                    why = str(error)
            yield Judged(operation, libraries, proof, why, time.perf_counter() - started)
