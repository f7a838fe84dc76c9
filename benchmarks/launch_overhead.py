"""What an armed hook costs launches that are not captured.

Prints the time of 20,000 small Triton launches: plain (the baseline), armed with a name that
no kernel has, and armed with the kernel's name but an ordinal that never comes. Rounds are
interleaved; each figure is the best of its rounds. On a GPU launches are asynchronous, so
this is the cost on the CPU's side, where it is paid.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

TARGET = """
import sys, time
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
best = float("inf")
for _ in range(5):
    for _ in range(launches // 20):
        small[(1,)](x, 64, BLOCK=64)
    wait()
    start = time.perf_counter()
    for _ in range(launches // 5):
        small[(1,)](x, 64, BLOCK=64)
    wait()
    best = min(best, (time.perf_counter() - start) / (launches // 5))
print(f"seconds {best:.9f}")
"""

ROUNDS = 4


def seconds_per_launch(command: list[str], env: dict[str, str]) -> float:
    finished = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    for line in finished.stdout.splitlines():
        if line.startswith("seconds "):
            return float(line.split()[1])
    raise SystemExit(f"the target printed no time: {finished.stdout}{finished.stderr}")


def main() -> None:
    """Run all three ways and print one line each with its ratio to plain."""
    has_gpu = Path("/dev/nvidia0").exists()
    env = dict(os.environ) if has_gpu else {**os.environ, "TRITON_INTERPRET": "1"}
    launches = 20_000 if has_gpu else 1_000
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
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, command in ways.items():
                best[name] = min(best[name], seconds_per_launch(command, env))
    print(f"{launches} launches a process, best of {ROUNDS} interleaved rounds of 5")
    for name, value in best.items():
        print(f"{name:24} {value * 1e6:8.3f} us a launch   {value / best['plain']:.3f}x of plain")


if __name__ == "__main__":
    main()
