"""What the pytest that runs the tests writes for the one that waits, in a private folder of that one.

A line for each test that failed; the test that runs, which is known if the process ends in it. In a pytest
that runs one test again: the tensors of the failing frames, by address.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

FOLDER = "KERNCAP_PYTEST"  # the variable with the folder's path
Kind = Literal["failed", "fault", "finding"]
# What drivers and frameworks say of a launch that faulted; the process goes on, each later call fails.
_FAULT = re.compile(
    r"illegal (?:memory access|address|instruction)|misaligned address|device-side assert|"
    r"unspecified launch failure|(?:CUDA|HIP)(?: driver)? error: (?!out of memory)|"
    r"CUDA_ERROR_(?:ASSERT|HARDWARE_STACK_ERROR|ILLEGAL_\w+|INVALID_ADDRESS_SPACE|INVALID_PC|LAUNCH_FAILED|"
    r"MISALIGNED_ADDRESS)"
)
_CRASHED = re.compile(r"^worker '[^']*' crashed while running ")  # xdist, of a test whose process ended
_FINDING = re.compile(r"(?:Failed: )?kerncap sanitize:\n")
_KERNEL = re.compile(r"^([A-Za-z_]\w*)\[[0-9, ]+\] from ", re.MULTILINE)
MOST_TENSORS = 256


@dataclass(frozen=True)
class FailedTest:
    """A test and what is known of its failure. ``kernels`` are those with a finding of the sanitizer."""

    test: str
    kind: Kind
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tensor:
    """A tensor's storage at the time of the failure; ``name`` is the variable that held it.

    ``is_named``: by the statement that failed, as ``y`` in ``assert y.equal(x)``.
    """

    name: str
    address: int
    size_bytes: int
    is_named: bool = False


@dataclass(frozen=True)
class Notes:
    """The folder's files."""

    folder: Path

    def say_failed(self, failed: FailedTest) -> None:
        with open(self.folder / "failed", "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(failed)) + "\n")

    def failed(self) -> list[FailedTest]:
        """Each test once, as it failed first."""
        found: dict[str, FailedTest] = {}
        for line in _lines(self.folder / "failed"):
            said = json.loads(line)
            failed = FailedTest(said["test"], said["kind"], tuple(said["kernels"]))
            found.setdefault(failed.test, failed)
        return list(found.values())

    def say_running(self, test: str) -> None:
        (self.folder / "running").write_text(test, encoding="utf-8")

    def running(self) -> str | None:
        return next(iter(_lines(self.folder / "running")), None)

    def choose(self, test: str) -> None:
        """From here on a pytest runs only this test."""
        (self.folder / "only").write_text(test, encoding="utf-8")
        (self.folder / "tensors").unlink(missing_ok=True)

    def chosen(self) -> str | None:
        return next(iter(_lines(self.folder / "only")), None)

    def say_tensors(self, tensors: list[Tensor]) -> None:
        (self.folder / "tensors").write_text(json.dumps([asdict(each) for each in tensors]), encoding="utf-8")

    def tensors(self) -> list[Tensor]:
        return [Tensor(**each) for line in _lines(self.folder / "tensors") for each in json.loads(line)]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def notes_of(notes: Notes) -> object:
    """The plugin of a pytest that runs tests: all of them, or one again."""
    only = notes.chosen()
    return OfAllTests(notes) if only is None else OfOneTest(notes, only)


class OfAllTests:
    """Notes each test that fails."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._notes.say_running(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._notes.say_failed(_failed(report))


def _failed(report: pytest.TestReport) -> FailedTest:
    text = report.longreprtext
    if _FINDING.match(text):  # and with another reason: a failure as any
        return FailedTest(report.nodeid, "finding", tuple(dict.fromkeys(_KERNEL.findall(text))))
    is_fault = _CRASHED.search(text) or _FAULT.search(text)
    return FailedTest(report.nodeid, "fault" if is_fault else "failed")


class OfOneTest:
    """Runs one test, and notes the tensors that are at hand where it fails."""

    def __init__(self, notes: Notes, only: str) -> None:
        self._notes = notes
        self._only = only

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid == self._only]

    def pytest_exception_interact(self, node: Any, call: pytest.CallInfo[Any]) -> None:
        if isinstance(node, pytest.Item) and call.excinfo is not None:
            self._notes.say_tensors(tensors_of(call.excinfo))


def tensors_of(excinfo: pytest.ExceptionInfo[BaseException]) -> list[Tensor]:
    """Storages of the tensors in the variables of a traceback's frames, outermost first; each once."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return []
    found: dict[int, Tensor] = {}
    for entry in excinfo.traceback:
        named: set[str] = set()
        with contextlib.suppress(Exception):  # no source
            named.update(re.findall(r"[A-Za-z_]\w*", str(entry.statement)))
        for variable, name, value in _variables(entry.frame.f_locals):
            with contextlib.suppress(Exception):  # a tensor without memory; a class with a tensor's name
                if isinstance(value, torch.Tensor) and (storage := value.untyped_storage()).nbytes():
                    one = Tensor(name, storage.data_ptr(), storage.nbytes(), variable in named)
                    found.setdefault(one.address, one)
    return list(found.values())[:MOST_TENSORS]


def _variables(frame: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each variable, the name of a value, and the value: the variable's, or one in a list, tuple or dict."""
    for variable, value in list(frame.items()):
        yield variable, variable, value
        if type(value) in (list, tuple):
            for number, each in enumerate(value[:MOST_TENSORS]):
                yield variable, f"{variable}[{number}]", each
        elif type(value) is dict:
            for key in [key for key in value if type(key) is str][:MOST_TENSORS]:
                yield variable, f"{variable}[{key!r}]", value[key]
