"""What the benchmarks share: rows with a ratio to a named baseline, and how programs are run."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

# `secrets.py` and `list.py` beside this file are no modules of anybody's.
sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]
ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(__file__).resolve().parent / "programs"
KERNCAP = [sys.executable, "-m", "kerncap"]


@dataclass(frozen=True)
class Row:
    """One figure. ``ratio`` is to ``baseline``; it should lie between ``least`` and ``most``."""

    name: str
    value: float
    unit: str
    baseline: str
    ratio: float
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return (self.least is None or self.ratio >= self.least) and (
            self.most is None or self.ratio <= self.most
        )

    def line(self) -> str:
        bounds = [f"at least {self.least:g}"] if self.least is not None else []
        bounds += [f"at most {self.most:g}"] if self.most is not None else []
        verdict = f"  [{' and '.join(bounds)}: {'yes' if self.holds else 'NO'}]" if bounds else ""
        note = f"  {self.note}" if self.note else ""
        figure = f"{self.name:36} {self.value:12,.3f} {self.unit:9}"
        return f"{figure} {self.ratio:8.3f}x of {self.baseline}{verdict}{note}"


def finish(name: str, rows: Iterable[Row], as_json: bool) -> int:
    """Print all rows, each as soon as it is there; 1 if one misses its bound."""
    found = []
    for row in rows:
        found.append(row)
        if not as_json:
            print(row.line(), flush=True)
    if as_json:
        print(json.dumps({"benchmark": name, "rows": [{**asdict(row), "holds": row.holds} for row in found]}))
    return 0 if all(row.holds for row in found) else 1


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=(description or "").strip().splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document in place of the table")
    return parser


def has_gpu() -> bool:
    return Path("/dev/nvidia0").exists()


def skip_without_gpu(name: str) -> None:
    """Ends the benchmark if there is nothing to measure."""
    if not has_gpu():
        print(f"{name}: needs an NVIDIA GPU, skipped")
        raise SystemExit(0)


def nvcc() -> str:
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        raise SystemExit("needs nvcc")
    return found


def build(source: Path) -> Path:
    """The program of one .cu file, compiled once a machine: a cache in build/."""
    flags = ["-O2", "-std=c++17", "-arch=native", "--extended-lambda", "-lineinfo", "-lpthread"]
    key = hashlib.sha256(source.read_bytes() + repr(flags).encode()).hexdigest()[:16]
    program = ROOT / "build" / "benchmarks" / f"{source.stem}-{key}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        subprocess.run([nvcc(), *flags, "-o", str(unfinished), str(source)], check=True)
        unfinished.rename(program)
    return program


def capture(out: Path, options: list[str], command: list[str], *, self_check: bool = False) -> list[Path]:
    """The reproducers of one capture. Ends the benchmark if there is none."""
    check = [] if self_check else ["--no-self-check"]
    done = subprocess.run(
        [*KERNCAP, "capture", "--json", *check, "-o", str(out), *options, "--", *command],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["captured"] if done.stdout.strip() else []
    if not found:
        raise SystemExit(f"nothing captured: {done.stdout}{done.stderr}")
    return [Path(path).resolve() for path in found]


def launches_seen(out: Path) -> int:
    """Launches that the shims of all sessions in ``out`` counted: a run that sees none measures nothing.

    The sessions must have been kept.
    """
    from kerncap.format import records

    total = 0
    for path in out.glob(".kerncap-session-*/*/records"):
        counts = [r for r in records.decode(path.read_bytes()) if r.kind is records.RecordKind.COUNTS]
        if counts:
            total += int(counts[-1].payload["launches"])
    return total


def replay(path: Path, *options: str) -> dict[str, object]:
    """The document of one `kerncap replay`; failing verdicts are data."""
    done = subprocess.run(
        [*KERNCAP, "replay", "--json", *options, str(path)], capture_output=True, text=True, check=False
    )
    if not done.stdout.strip():
        raise SystemExit(f"replay {path}: status {done.returncode}\n{done.stderr}")
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document
