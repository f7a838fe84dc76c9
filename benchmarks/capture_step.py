"""What capturing every kernel of training steps of a Llama costs: the first launch of each, in one run.

Baseline: the program without kerncap, in turns. The cache of compiled kernels is warm; no self-check runs.
The program's time is from its start to its end, in which kerncap also seals on the other cores; the command's
has what is left to seal after that. Stopped is what the program spent in kerncap ("armed cost"), and distinct
memory what the chunks of all reproducers hold, each of them once.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _harness import KERNCAP, PROGRAMS, Row, arguments, finish, skip_without_gpu

from kerncap.format import Reproducer

PROGRAM = [sys.executable, str(PROGRAMS / "llama_step.py")]
TIMED = ["bash", "-c", 'from=$EPOCHREALTIME; "${@:2}" || exit; echo "$EPOCHREALTIME $from" >"$1"', "timed"]
MOST, MOST_STOPPED_S = 1.3, 0.3


def seconds(program: list[str], before: list[str], folder: Path) -> tuple[float, float, str]:
    """Of the program and of the whole command; its output."""
    times, started = folder / "times", time.monotonic()
    done = subprocess.run(
        [*before, *TIMED, str(times), *program], check=True, stdout=subprocess.PIPE, text=True
    )
    spent, (end, start) = time.monotonic() - started, times.read_text().split()
    return float(end) - float(start), spent, done.stdout


def distinct_bytes(folder: Path) -> int:
    """Of the chunks of all reproducers, before and after the launches."""
    sizes: dict[bytes, int] = {}
    for path in folder.iterdir():
        with Reproducer.open(path) as reproducer:
            table = reproducer.index.table
            sizes.update(
                zip((digest.tobytes() for digest in table["digest"]), table["raw"].tolist(), strict=True)
            )
    return sum(sizes.values())


def rows(steps: int, rounds: int, parent: Path) -> Iterator[Row]:
    program = [*PROGRAM, "--steps", str(steps)]
    plain, with_kerncap, whole, stopped, captured, distinct = [], [], [], [], 0, 0
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory(dir=parent) as name:
            folder = Path(name)
            alone = seconds(program, [], folder)[0]
            if number == 0:  # Inductor has compiled
                continue
            plain.append(alone)
            out = folder / "out"
            options = [
                "capture",
                "--json",
                "--no-self-check",
                "-k",
                ".",
                "--launch",
                "0",
                "-o",
                str(out),
                "--",
            ]
            ran, took, text = seconds(program, [*KERNCAP, *options], folder)
            document = json.loads(text)
            with_kerncap.append(ran)
            whole.append(took)
            stopped.append(document["overhead_ns"] / 1e9)
            captured, distinct = len(document["captured"]), distinct_bytes(out)
            if document["failed"]:
                print(*document["failed"], sep="\n", file=sys.stderr)
    usual, gib = statistics.median(plain), distinct / 2**30
    base = f"plain ({usual:.1f} s)"
    ran, took, stop = (statistics.median(times) for times in (with_kerncap, whole, stopped))
    yield Row(f"program, {captured} kernels", ran, "s", base, ran / usual, most=MOST)
    yield Row("command", took, "s", base, took / usual)
    bound = f"1 s for each GiB of distinct memory ({gib:.2f} GiB)"
    yield Row("stopped", stop, "s", bound, stop / gib, most=MOST_STOPPED_S)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="of the reproducers (/dev/shm)")
    asked = parser.parse_args()
    skip_without_gpu("capture_step")
    return finish("capture_step", rows(asked.steps, asked.rounds, asked.folder), asked.json)


if __name__ == "__main__":
    sys.exit(main())
