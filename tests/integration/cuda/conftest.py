"""What a CUDA test without a GPU runs on: the stand-in driver, its clients, and the shim, built once.

A program under capture is a client of `tests/native/clients`, unchanged; only LD_LIBRARY_PATH says whose
libcuda.so.1 it finds, and KERNCAP_RIG_KERNELS where the host functions of its kernels are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kerncap as package
from kerncap import env
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from tests.integration.conftest import CommandLine, Finished, UnderCapture
from tests.native.building import ROOT, build, stand_in


@dataclass(frozen=True)
class Rig:
    """A build of the stand-in driver."""

    folder: Path

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": str(self.folder),
            "KERNCAP_RIG_KERNELS": str(self.folder / "clients" / "librig_test_kernels.so"),
            **(extra or {}),
        }

    def client(self, name: str) -> Path:
        return self.folder / "clients" / name

    def run(
        self, *command: str | Path, extra: Mapping[str, str] | None = None, timeout: float = 300
    ) -> Finished:
        """A client by name (or any program by path), alone."""
        program = str(command[0])
        path = program if os.sep in program else str(self.client(program))
        done = subprocess.run(
            [path, *map(str, command[1:])],
            env={**os.environ, **self.environment(extra)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def rig() -> Rig:
    return Rig(stand_in())


@pytest.fixture(scope="session")
def shim() -> Path:
    """The shim that `kerncap capture` preloads: an installed one, or the checkout's, brought up to date."""
    if Path(package.__file__).resolve().parent == ROOT / "kerncap":
        build(ROOT / "shims", ROOT / "build" / "shims")
    path = env.cuda_shim()
    assert path is not None, "this installation of kerncap has no CUDA shim"
    return path


@dataclass(frozen=True)
class Captured(UnderCapture):
    def manifest(self, path: Path | None = None) -> Manifest:
        with Reproducer.open(path or self.path) as reproducer:
            return reproducer.manifest


@dataclass(frozen=True)
class Bench:
    """`kerncap` and clients of the stand-in driver, in a folder of the test's own."""

    kerncap: CommandLine
    rig: Rig

    def __call__(
        self, *arguments: str | Path, extra: Mapping[str, str] | None = None, timeout: float = 300
    ) -> Finished:
        return self.kerncap(*arguments, env=self.rig.environment(extra), timeout=timeout)

    def capture(
        self,
        *options: str | Path,
        client: tuple[str | Path, ...],
        extra: Mapping[str, str] | None = None,
        expect: int | None = 1,
        self_check: bool = False,
        same: bool = True,
    ) -> Captured:
        """Captures from a client; its output and exit status must be those of a run without.

        ``expect`` reproducers must come (None: any number). ``same`` is False where two plain runs differ.
        """
        program = str(client[0])
        path = program if os.sep in program else str(self.rig.client(program))
        plain = self.rig.run(*client, extra=extra)
        checked = () if self_check else ("--no-self-check",)
        done = self(
            "capture", "--json", "-o", "out", *checked, *options, "--", path, *client[1:], extra=extra
        )
        document = done.document
        captured = Captured(self.kerncap.folder, plain, done)
        if same:
            assert plain.stdout in done.stderr, f"the target's output changed: {plain.stdout}\n{done.stderr}"
        ended = document["target_signal"] is not None if plain.status < 0 else None
        assert ended or document["target_status"] == plain.status, (document, plain.status, done.stderr)
        if expect is not None:
            assert len(document["captured"]) == expect, f"{captured.reason}\n{done.stderr}"
        return captured

    def judge(
        self,
        path: Path,
        *options: str | Path,
        command: str = "verify",
        extra: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The document of `verify` (or `replay`) for a reproducer."""
        return self(command, path, "--json", *options, extra=extra).judged

    def passes(self, path: Path, *options: str | Path, extra: Mapping[str, str] | None = None) -> None:
        """A replay agrees with the application; `verify`, as it asks more than `replay` does."""
        document = self.judge(path, *options, extra=extra)
        assert document["result"] == "pass", document

    def candidate(self, name: str, variant: int) -> Path:
        """Another edition of vector_add, as PTX (see `tests/native/clients/kernels.cpp`)."""
        path = self.kerncap.folder / f"{name}.ptx"
        path.write_text(
            ".version 8.0\n.target sm_90\n.address_size 64\n"
            f".visible .global .align 4 .u32 rig_variant = {variant};\n"
            ".visible .entry _Z10vector_addPKfS0_Pfi(\n"
            " .param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n)\n{\n ret;\n}\n"
        )
        return path


@pytest.fixture
def bench(kerncap: CommandLine, rig: Rig, shim: Path) -> Bench:
    assert shim.is_file()
    return Bench(kerncap, rig)


@contextmanager
def opened(path: Path) -> Iterator[Reproducer]:
    """The reproducer with every digest checked."""
    with Reproducer.open(path) as reproducer:
        reproducer.verify()
        yield reproducer
