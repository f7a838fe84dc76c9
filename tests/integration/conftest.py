"""How an integration test runs the command line: as a user does, in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.schemas import DOCUMENTS
from kerncap.format.folder import is_range
from tests.integration import forked_commands
from tests.shared_compilers import shared_compilers
from tests.unit.schemas.strict import check

__all__ = ["CommandLine", "Finished", "UnderCapture", "shared_compilers"]

# To look for garbage while torch is imported is an eighth of what a small target takes.
PRELUDE = """\
import gc, os, sys; gc.disable()
import torch
import triton
import triton.language as tl
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0); gc.enable()
"""


@dataclass(frozen=True)
class Finished:
    """What one run of `kerncap` left: its streams and exit status."""

    status: int
    stdout: str
    stderr: str
    schema: str | None = field(default=None, compare=False)

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document of a ``--json`` run whose target printed nothing, as its schema has it."""
        try:
            parsed = json.loads(self.stdout)
        except json.JSONDecodeError:
            pytest.fail(f"no JSON document: status {self.status}\n{self.stdout}\n{self.stderr}")
        assert isinstance(parsed, dict)
        if self.schema is not None:
            check(self.schema, parsed)
        return parsed

    @property
    def judged(self) -> dict[str, Any]:
        """The document of `verify` or `replay`; the exit status says the same."""
        found = self.document
        assert (self.status == 0) == (found.get("result") == "pass"), (self.status, found, self.stderr)
        return found

    @property
    def result_line(self) -> str:
        return self.stdout.strip().splitlines()[-1]


def schema_of(words: list[str], folder: Path) -> str | None:
    """The schema of what these words print with --json; None where it is another than the command's own."""
    command, *options = words
    if {"--limits", "--compare", "--watch", "--edit"} & set(options) or "--json" not in options:
        return None
    if command == "doctor" and "--" in options:
        return "doctor-program"
    if command == "diff" and any(option.endswith(".json") for option in options):
        return "diff-results"
    of_one = {"--only", "--launch", "--candidate"} & set(options)
    of_one = of_one or command not in ("inspect", "replay", "verify")
    if not of_one and any(is_range(folder / option) for option in options):
        return "inspect-range" if command == "inspect" else "replay-range"
    return command if command in DOCUMENTS else None


@dataclass(frozen=True)
class CommandLine:
    """`kerncap` in a folder of the test's own."""

    folder: Path

    def __call__(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> Finished:
        words = list(map(str, arguments))
        return Finished(
            *forked_commands.run(words, self.folder, self.environment(env), timeout),
            schema_of(words, self.folder),
        )

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        base = dict(os.environ)
        if not Path("/dev/nvidia0").exists():
            base["TRITON_INTERPRET"] = "1"
        # Beside the folders of all tests: what one test's fixture captured is trusted in every test.
        base["XDG_CONFIG_HOME"] = str(self.folder.parent / "config")
        return {**base, **(extra or {})}

    def target(self, text: str, name: str = "target.py") -> Path:
        """A program under capture: the usual imports, then ``text``."""
        path = self.folder / name
        path.write_text(PRELUDE + textwrap.dedent(text))
        return path

    def capture(self, *options: str | Path, target: Path, expect: int = 1) -> list[Path]:
        """Capture, assert the number of reproducers, return their folders."""
        done = self("capture", "--json", "-o", "out", *options, "--", sys.executable, target)
        assert done.status in (0, 1), done.stderr
        document = done.document
        assert len(document["captured"]) == expect, done.stderr
        return [self.folder / path for path in document["captured"]]


@dataclass(frozen=True)
class UnderCapture:
    """One run under capture, beside the same run without."""

    folder: Path
    plain: Finished
    done: Finished

    @property
    def document(self) -> dict[str, Any]:
        return self.done.document

    @property
    def paths(self) -> list[Path]:
        return [self.folder / path for path in self.document["captured"]]

    @property
    def path(self) -> Path:
        """The only reproducer."""
        [path] = self.paths
        return path

    @property
    def reason(self) -> str:
        """Why nothing was captured, and every capture that failed."""
        return " | ".join([self.document["reason"] or "", *self.document["failed"]])


@pytest.fixture
def kerncap(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture(scope="module")
def kerncap_of_module(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """For what all tests of a file share: most of a run's time is the import of torch."""
    return CommandLine(tmp_path_factory.mktemp("module"))
