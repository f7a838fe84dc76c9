"""What an armed hook costs launches that are not captured.

Three programs make the same small Triton launches: plain (the baseline), armed with a name that no kernel
has, and armed with the kernel's name but an ordinal that never comes. They run side by side on one core and
take turns, a batch each, so that whatever else the machine does hits all three. Prints the median of the
batches and its ratio to plain; several sets of processes, since each process has a memory layout of its own.
On a GPU launches are asynchronous: this is the cost on the CPU's side, where it is paid.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

TARGET = """
import os, sys, time
import torch, triton
import triton.language as tl

@triton.jit
def small(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)

device = "cuda" if torch.cuda.is_available() else "cpu"
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
x = torch.zeros(64, device=device)
launches = int(sys.argv[1])
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
for _ in range(launches):
    small[(1,)](x, 64, BLOCK=64)
for _ in sys.stdin:
    wait()
    start = time.perf_counter()
    for _ in range(launches):
        small[(1,)](x, 64, BLOCK=64)
    wait()
    print(f"{(time.perf_counter() - start) / launches:.9f}", flush=True)
"""

SETS = 5


def one_set(ways: dict[str, list[str]], batches: int, env: dict[str, str]) -> dict[str, list[float]]:
    """Seconds a launch of every batch, by way."""
    pipe = subprocess.PIPE
    running = {
        name: subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for name, command in ways.items()
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    try:
        for turn in range(batches):
            for name in names[turn % 3 :] + names[: turn % 3]:
                process = running[name]
                assert process.stdin is not None and process.stdout is not None
                print("go", file=process.stdin, flush=True)
                times[name].append(float(process.stdout.readline()))
    finally:
        for process in running.values():
            process.communicate()  # end of input ends the target
    return times


def main() -> None:
    """Run all three ways and print one line each with its ratio to plain."""
    has_gpu = Path("/dev/nvidia0").exists()
    env = dict(os.environ) if has_gpu else {**os.environ, "TRITON_INTERPRET": "1"}
    launches, batches = (1_000, 20) if has_gpu else (100, 6)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "target.py"
        target.write_text(textwrap.dedent(TARGET))
        plain = [sys.executable, str(target), str(launches)]
        capture = [sys.executable, "-m", "kerncap", "capture", "-o", folder]
        ways = {
            "plain": plain,
            "armed, unmatched": [*capture, "-k", "no_such_kernel", "--", *plain],
            "matched, other ordinal": [*capture, "-k", "small", "--launch", "1000000000", "--", *plain],
        }
        sets = [one_set(ways, batches, env) for _ in range(SETS)]
    print(f"{SETS} sets of processes, {batches * launches:,} launches each in turns of {launches:,}")
    for name in ways:
        medians = [statistics.median(times[name]) for times in sets]
        ratios = [statistics.median(times[name]) / statistics.median(times["plain"]) for times in sets]
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(
            f"{name:24} {statistics.median(medians) * 1e6:8.3f} us a launch   "
            f"{statistics.median(ratios):.3f}x of plain ({spread})"
        )


if __name__ == "__main__":
    main()
