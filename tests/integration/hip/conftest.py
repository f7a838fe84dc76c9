"""What a HIP test without a GPU runs on: the emulated AMD GPU, the shim, and programs compiled once for all.

A program under capture is one of `programs/`, unchanged; the rig's `run` in front of it decides whose GPU it
finds.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import kerncap as package
from kerncap import env
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from tests.integration.conftest import CommandLine, Finished, UnderCapture
from tests.native.building import ROOT, shims
from tests.rigs import amd_gpu
from tests.rigs.amd_gpu import Rig
from tests.shared_nurseries import own_nurseries, shared_nurseries

PROGRAMS = Path(__file__).with_name("programs")
_ALONE: dict[tuple[object, ...], Finished] = {}


@dataclass(frozen=True)
class Output:
    """What a program says of one launch's output: where it lies, and the hash of what it copied back."""

    address: int
    size: int
    hash: str


@dataclass(frozen=True)
class Captured(UnderCapture):
    def outputs(self) -> dict[str, Output]:
        """The outputs that the captured run printed, by the name of the launch."""
        lines = (line.split() for line in self.done.stderr.splitlines())
        return {
            words[0]: Output(int(words[1], 16), int(words[2]), words[3])
            for words in lines
            if len(words) == 4 and words[1].startswith("0x")
        }

    def manifests(self) -> dict[Path, Manifest]:
        return _verified(tuple(self.paths))


@functools.cache  # it takes longer than what most tests ask of them
def _verified(paths: tuple[Path, ...]) -> dict[Path, Manifest]:
    found = {}
    for path in paths:
        with Reproducer.open(path) as reproducer:
            reproducer.verify()
            found[path] = reproducer.manifest
    return found


@dataclass(frozen=True)
class Bench:
    """`kerncap` and programs on the emulated GPU, in a folder of the test's own."""

    kerncap: CommandLine
    rig: Rig
    extra: Mapping[str, str] = field(default_factory=dict)

    def __call__(
        self, *arguments: str | Path, extra: Mapping[str, str] | None = None, timeout: float = 300
    ) -> Finished:
        return self.kerncap(*arguments, env={**self.extra, **(extra or {})}, timeout=timeout)

    def run(self, *command: str | Path, extra: Mapping[str, str] | None = None) -> Finished:
        """A program alone."""
        done = subprocess.run(
            [*self.rig.run_prefix, *map(str, command)],
            env={**self.rig.environment(self.extra), **(extra or {})},
            cwd=self.kerncap.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def _alone(self, program: tuple[str | Path, ...], extra: Mapping[str, str] | None) -> Finished:
        """As `run`, once for all captures of a program."""
        key = (self.rig, *map(str, program), *{**self.extra, **(extra or {})}.items())
        if key not in _ALONE:
            _ALONE[key] = self.run(*program, extra=extra)
        return _ALONE[key]

    def capture(
        self,
        *options: str | Path,
        program: tuple[str | Path, ...],
        extra: Mapping[str, str] | None = None,
        expect: int | None = 1,
        self_check: bool = False,
    ) -> Captured:
        """Captures from a program; its output and exit status must be those of a run without.

        ``expect`` reproducers must come (None: any number).
        """
        plain = self._alone(program, extra)
        checked = () if self_check else ("--no-self-check",)
        prefix = self.rig.run_prefix
        done = self(
            "capture", "--json", "-o", "out", *checked, *options, "--", *prefix, *program, extra=extra
        )
        document = done.document
        captured = Captured(self.kerncap.folder, plain, done)
        assert unplaced(plain.stdout) == unplaced(done.stderr, unplaced(plain.stdout)), done.stderr
        ended = plain.status if plain.status >= 0 else 128 - plain.status  # a shell's word for a signal
        assert document["target_status"] == ended, (document, plain.status, done.stderr)
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
        """The document of `verify` (or `replay`) on the emulated GPU."""
        return self(command, path, "--json", "--emulator", self.rig.folder, *options, extra=extra).judged


def unplaced(text: str, like: list[list[str]] | None = None) -> list[list[str]]:
    """The lines of a program's output, words only, without addresses: these differ from run to run.

    With ``like``, only lines that are among those: the program's, out of a stream that others write to, too.
    """
    lines = [[word for word in line.split() if not word.startswith("0x")] for line in text.splitlines()]
    return lines if like is None else [line for line in lines if line in like]


@pytest.fixture(scope="session")
def rig() -> Rig:
    """The emulated GPU; skips with the one thing that is missing."""
    found = amd_gpu.find()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def shim() -> Path:
    """The shim that `kerncap capture` makes a tool of ROCr: installed, or the checkout's, up to date."""
    if Path(package.__file__).resolve().parent == ROOT / "kerncap":
        shims("kerncap_hip")
    path = env.hip_shim()
    if path is None:
        pytest.skip("this installation of kerncap has no HIP shim (make shims)")
    return path


@dataclass(frozen=True)
class Programs:
    """The programs of `programs/`, compiled once for all runs and kept under build/."""

    rig: Rig
    folder: Path

    def __call__(self, name: str, arch: str = "gfx90a") -> Path:
        return self.rig.build(PROGRAMS / f"{name}.hip", self.folder / arch / name, arch)

    def project(self, folder: Path, name: str) -> Path:
        """A copy of a project of `programs/`, which a test may edit and compile."""
        shutil.copytree(PROGRAMS / name, folder)
        return folder


@pytest.fixture(scope="session")
def programs(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(rig, tmp_path_factory.mktemp("programs"))


@pytest.fixture
def bench(kerncap: CommandLine, rig: Rig, shim: Path) -> Bench:
    assert shim.is_file()
    return Bench(kerncap, rig)


@pytest.fixture(scope="session")
def shared_bench(rig: Rig, shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """For what is captured once and looked at by several tests."""
    assert shim.is_file()
    return Bench(CommandLine(tmp_path_factory.mktemp("captured")), rig)


def fnv(data: bytes) -> str:
    """The hash that the programs print."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def post_of(path: Path, output: Output) -> bytes:
    """What a reproducer says that the launch left in the bytes of ``output``."""
    with Reproducer.open(path) as reproducer:
        for number, region in enumerate(reproducer.manifest.regions):
            offset = output.address - region.base
            if offset >= 0 and offset + output.size <= region.size:
                return reproducer.read("post", number, offset, output.size)
    raise AssertionError(f"no region holds {output.size} bytes at {output.address:#x}")


__all__ = [
    "Bench", "Captured", "Output", "Programs", "fnv", "own_nurseries", "post_of", "shared_nurseries",
    "unplaced",
]  # fmt: skip
