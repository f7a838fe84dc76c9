"""`kerncap list -- python train.py`: device times against torch's profiler, wall time against the plain run.

A small transformer's training steps: plain (the baseline of the wall time) and under `list`, in turns, the
faster of each counts; and once under torch's profiler (the baseline of the times: the mean of each kernel's
launches, for kernels with at least 1 % of the device's time).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import KERNCAP, PROGRAMS, Row, arguments, finish, skip_without_gpu

MOST_WALL, MOST_APART, LEAST_SHARE = 1.3, 0.05, 0.01


def run(command: list[str]) -> tuple[float, str]:
    """Its wall time in seconds, and its standard output."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{command} ended with {done.returncode}\n{done.stderr[-4000:]}")
    return wall_s, done.stdout


def squeezed(name: str) -> str:
    return "".join(name.split())


def compare(document: dict[str, Any], profiled: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """(name, share, mean by list, mean by the profiler) of the kernels that matter; in ns."""
    whole = sum(entry["time_ns"] for entry in document["kernels"])
    theirs = {squeezed(name): total / count for name, (count, total) in profiled["kernels"].items()}
    rows = []
    for entry in document["kernels"]:
        share = entry["time_ns"] / whole
        if share < LEAST_SHARE:
            continue
        mean = theirs.get(squeezed(entry["qualified_name"])) or theirs.get(squeezed(entry["mangled"]))
        if mean is None:
            raise SystemExit(f"torch's profiler has no kernel {entry['qualified_name']}")
        rows.append((entry["name"], share, entry["time_ns"] / entry["timed_launches"], mean))
    return rows


def measure(seconds: float) -> list[Row]:
    program = [sys.executable, str(PROGRAMS / "train.py")]
    first_s, out = run([*program, "--seconds", str(seconds)])
    steps = str(json.loads(out)["steps"])
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.json"
        listing = [*KERNCAP, "list", "--json", "--", *program, "--steps", steps]
        listed_s, out = run(listing)
        document = json.loads(out)
        run([*program, "--steps", steps, "--profile", str(profile)])
        profiled = json.loads(profile.read_text())
    plain_s = min(first_s, run([*program, "--steps", steps])[0])
    listed_s = min(listed_s, run(listing)[0])
    clocks = {clock["clock"] for clock in document["clocks"]}
    kernels = compare(document, profiled)
    rows = [
        Row(
            name[:36], mine / 1e3, "µs/launch", f"torch's profiler ({theirs / 1e3:.2f} µs)", mine / theirs,
            least=1 - MOST_APART, most=1 + MOST_APART, note=f"{100 * share:.1f} % of the device's time",
        )
        for name, share, mine, theirs in kernels
    ]  # fmt: skip
    worst = max(abs(row.ratio - 1) for row in rows)
    note = f"{document['launches']:,} launches, {steps} steps, clock: {', '.join(sorted(clocks))}"
    rows.append(
        Row(
            "furthest from the profiler", 100 * worst, "%", "torch's profiler", 1 + worst, most=1 + MOST_APART
        )
    )
    rows.append(
        Row(
            "wall time",
            listed_s,
            "s",
            f"plain ({plain_s:.2f} s)",
            listed_s / plain_s,
            most=MOST_WALL,
            note=note,
        )
    )
    return rows


def main() -> int:
    """The status is 1 where a kernel is over 5 % off, or the run takes 1.3 times as long."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=12.0, help="how long the plain loop runs")
    options = parser.parse_args()
    skip_without_gpu("list")
    return finish("list", measure(options.seconds), options.json)


if __name__ == "__main__":
    sys.exit(main())
