"""Programs of nvcc, captured once for all tests of a file, and what is then asked of every reproducer."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer, records
from kerncap.format.schema import Manifest
from tests.integration.conftest import CommandLine, Finished

TARGETS = Path(__file__).parent / "targets"
ROOT = Path(__file__).parents[4]
# A process of each takes a few seconds of one core and half a gigabyte of the device.
AT_ONCE = max(1, min(4, (os.cpu_count() or 1) // 2))
FIRST_OF_EACH = ("--launch", "0:1")


# --- building --------------------------------------------------------------------------------------


@cache
def nvcc() -> str:
    """The compiler; skips where there is none, which `--require-gpu` does not turn into a failure."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        pytest.skip("needs nvcc")
    return found


@cache
def toolkit() -> Path:
    """Where nvcc's headers and libraries are; nvcc itself may be a script beside other programs."""
    folders = (Path(nvcc()).resolve().parents[1], Path("/usr/local/cuda"))
    return next(folder for folder in folders if (folder / "include" / "cuda_runtime.h").is_file())


@cache
def libcuda() -> str:
    """The driver's own file: a toolkit without stubs can't serve -lcuda."""
    import ctypes

    ctypes.CDLL("libcuda.so.1")
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "libcuda.so" in line)


@cache
def libnvrtc() -> str:
    """NVRTC as the toolkit has it, or as its wheel has it beside torch."""
    folders = [toolkit() / "lib64", toolkit() / "lib"]
    folders += [Path(entry) / "nvidia" / "cu13" / "lib" for entry in sys.path]
    for folder in folders:
        for path in sorted(folder.glob("libnvrtc.so*")):
            if "alt" not in path.name:
                return str(path)
    pytest.skip("needs libnvrtc")


def linked(library: str) -> tuple[str, ...]:
    """nvcc's options for a library by its file, whose folder is on no path. nvcc takes no `.so.1` itself."""
    return (f"-Xlinker=--no-as-needed,{library},-rpath={Path(library).parent}",)


def build(*sources: str, cudart: str = "static", options: Iterable[str] = ()) -> Path:
    """The program of ``sources`` and headers in targets/, compiled once a machine: a cache in build/."""
    files = [TARGETS / name for name in (*sources, "check.h")]
    flags = ["-O2", "-lineinfo", "-std=c++17", "-arch=native", "--extended-lambda", f"-cudart={cudart}"]
    flags += options
    if cudart == "shared":
        flags += [f"-Xlinker=-rpath={toolkit() / 'lib64'}"]
    key = hashlib.sha256(repr((flags, [path.read_bytes() for path in files])).encode()).hexdigest()[:16]
    folder = ROOT / "build" / "gpu-targets"
    program = folder / f"{Path(sources[0]).stem}-{cudart}-{key}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        compiled = [str(file) for file in files if file.suffix != ".h"]
        command = [nvcc(), *flags, "-o", str(unfinished), *compiled]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        unfinished.rename(program)  # another worker may have built the same
    return program


# --- capturing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Captured:
    """One captured run of a program, and the same run without kerncap."""

    folder: Path
    plain: Finished
    captured: Finished
    reproducers: dict[Path, Manifest]

    def one(self, *words: str, ordinal: int | None = None) -> Path:
        """The reproducer whose mangled and demangled name hold every one of ``words``."""
        found = [
            path
            for path, manifest in self.reproducers.items()
            if all(word in f"{manifest.kernel.mangled} {manifest.kernel.qualified_name}" for word in words)
            and ordinal in (None, manifest.launch.ordinal)
        ]
        assert found, f"no kernel with {words} among:\n{self.names()}\n{self.captured.stderr[-3000:]}"
        return found[0]

    def names(self) -> str:
        return "\n".join(
            f"  {m.kernel.mangled or m.kernel.qualified_name}" for m in self.reproducers.values()
        )

    def target_is_unchanged(self) -> None:
        """Its output and its status are those of a run without kerncap."""
        both = f"{self.plain.stdout}--- and under capture:\n{self.captured.stdout}"
        assert self.captured.stdout == self.plain.stdout, f"{both}\n{self.captured.stderr}"
        assert self.captured.status == self.plain.status, self.captured.stderr


def capture(
    kerncap: CommandLine,
    *command: str | Path,
    options: Sequence[str] = FIRST_OF_EACH,
    env: Mapping[str, str] | None = None,
    timeout: float = 240,
    beside: bool = True,
) -> Captured:
    """Run ``command`` once without and once with kerncap; side by side if the device holds it twice."""
    program = [str(part) for part in command]
    out = kerncap.folder / f"out-{len(list(kerncap.folder.glob('out-*')))}"

    def without() -> Finished:
        done = subprocess.run(
            program, cwd=kerncap.folder, env=kerncap.environment(env), capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr)

    with ThreadPoolExecutor(1) as pool:
        plain = pool.submit(without)
        if not beside:
            plain.result()
        done = kerncap(
            "capture", "-o", out, "--no-self-check", *options, "--", *program, env=env, timeout=timeout
        )
    paths = sorted(path for path in out.glob("*") if not path.name.startswith("."))
    manifests = {}
    for path in paths:
        with Reproducer.open(path) as reproducer:
            manifests[path] = reproducer.manifest
    return Captured(out, plain.result(), done, manifests)


def records_of(captured: Captured, kind: records.RecordKind) -> list[dict[str, Any]]:
    """Records of a session that --keep-session left, of every process of it."""
    [session] = captured.folder.glob(".kerncap-session-*")
    return [
        record.payload
        for file in sorted(session.glob("*/records"))
        for record in records.decode(file.read_bytes())
        if record.kind is kind
    ]


# --- judging ---------------------------------------------------------------------------------------


@dataclass
class Judge:
    """Replays and verifies reproducers, several at once; answers are kept for all tests of a file."""

    kerncap: CommandLine
    _answers: dict[tuple[str, ...], Finished] = field(default_factory=dict)

    def ask(self, *questions: tuple[str, ...]) -> list[Finished]:
        missing = [question for question in dict.fromkeys(questions) if question not in self._answers]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda question: self.kerncap(*question, timeout=200), missing)
            self._answers.update(zip(missing, answers, strict=True))
        return [self._answers[question] for question in questions]

    def prepare(self, paths: Iterable[Path]) -> None:
        """Ask all that `agrees` will ask: most of it is the start of processes."""
        # Replay first: it leaves the write set in the reproducer, and verify finds it there.
        names = [str(path) for path in paths]
        self.ask(*(("replay", "--json", name) for name in names))
        self.ask(*(("verify", "--json", name) for name in names))

    def agrees(self, path: Path, exact: bool = True) -> dict[str, Any]:
        """A fresh process gives the application's bytes at the application's addresses; verify passes."""
        [replayed] = self.ask(("replay", "--json", str(path)))
        [verified] = self.ask(("verify", "--json", str(path)))
        for done in (replayed, verified):
            assert done.status == 0, done.stdout + done.stderr
            document = done.document
            assert document["result"] == "pass"
            assert document["compared_bytes"] > 0
            assert document["placement"]["relocated"] == [], document
            assert not exact or document["exact"], document
        return replayed.document

    def rejects(self, path: Path, candidate: Path) -> None:
        """A candidate runs, and is found wrong."""
        [done] = self.ask(("verify", "--candidate", str(candidate), str(path)))
        assert done.status == 1, done.stdout + done.stderr
        assert done.result_line.startswith("Result: FAIL"), done.stdout

    def accepts(self, path: Path, candidate: Path) -> None:
        [done] = self.ask(("verify", "--candidate", str(candidate), str(path)))
        assert done.status == 0, done.stdout + done.stderr
        assert done.result_line.startswith("Result: PASS"), done.stdout


def compile_candidate(source: Path, arch: str | None) -> Path:
    """``source`` (CUDA C++) as PTX beside it; ``arch`` as in a manifest."""
    ptx = source.with_suffix(".ptx")
    command = [nvcc(), "-ptx", f"-arch={arch or 'native'}", "-o", str(ptx), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ptx
