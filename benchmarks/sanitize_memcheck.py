"""`kerncap sanitize` beside compute-sanitizer's memcheck on the same isolated launches: verdicts, wall times.

Each launch is a program of its own, each tensor an allocation of its own: memcheck knows allocations
only. Needs a GPU and compute-sanitizer.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from _harness import KERNCAP, PROGRAMS, Row, arguments, finish

PROGRAM = PROGRAMS / "suite_case.py"
LIMIT_S = 300
FOUND = 9  # memcheck's exit status if it has an error


@dataclass(frozen=True)
class Run:
    found: bool
    seconds: float
    text: str


def run(command: list[str], found: int) -> Run:
    """The command's verdict by its exit status: 0 clean, ``found`` not. Raises RuntimeError for others."""
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    environment.pop("TRITON_INTERPRET", None)
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    seconds = time.perf_counter() - started
    text = done.stdout + done.stderr
    if done.returncode not in (0, found):
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{text[-3000:]}")
    return Run(done.returncode == found, seconds, text)


def compare(name: str) -> tuple[str, Run, Run]:
    program = [sys.executable, str(PROGRAM), name]
    run(program, found=1)  # compiled and cached once, for both: neither pays for it
    checker = [
        "compute-sanitizer",
        "--tool",
        "memcheck",
        "--padding",
        "4096",
        "--error-exitcode",
        str(FOUND),
        *program,
    ]
    return (
        name,
        run([*KERNCAP, "sanitize", "--check", "oob", "--", *program], found=1),
        run(checker, found=FOUND),
    )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--cases", type=int, default=6, help="of each kind")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer is not on PATH")
        return 4
    chosen: list[str] = []
    for kind in ("oob", "clean"):
        listed = subprocess.run(
            [sys.executable, str(PROGRAM), "--list", kind], capture_output=True, text=True, check=True
        ).stdout.split("\n")
        names = [name for name in listed if name]
        chosen += random.Random(4).sample(names, min(options.cases, len(names)))
    with ThreadPoolExecutor(options.workers) as pool:
        results = list(pool.map(compare, chosen))
    rows = []
    for name, ours, theirs in results:
        same = "same verdict" if ours.found == theirs.found else "VERDICTS DIFFER"
        verdict = "out of bounds" if ours.found else "clean"
        if ours.found != theirs.found:
            print(f"--- {name}\n{ours.text[-1500:]}\n{theirs.text[-1500:]}", file=sys.stderr)
        note = f"{verdict}; {same}"
        ratio = theirs.seconds / ours.seconds
        rows.append(Row(name, ours.seconds, "s", "1/kerncap: memcheck", ratio, note=note))
    agreed = sum(ours.found == theirs.found for _, ours, theirs in results)
    median = statistics.median(theirs.seconds / ours.seconds for _, ours, theirs in results)
    rows.append(Row("verdicts that agree", agreed, "launches", "all launches", agreed / len(results), 1.0))
    rows.append(Row("memcheck's wall time, median", median, "", "kerncap's", median))
    return finish("sanitize_memcheck", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
