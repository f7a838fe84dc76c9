"""What an armed capture costs launches that are not captured.

Three processes make the same small launches: plain (the baseline), armed with a name that no kernel has,
and armed with the kernel's name but an ordinal that never comes. They run side by side on one core and
take turns, a batch each, so that whatever else the machine does hits all three. Prints the median of the
batches and its ratio to plain; several sets of processes, since each process has a memory layout of its
own. They start at once, since that takes the most time. ``--and`` takes another installation's command
``kerncap``, which is measured in the same turns. On a GPU launches are asynchronous: this is the cost on the
CPU's side, where it is paid. There torch.add is measured too: it launches below Python, where only the shim
is; and the launch of a CUDA graph with eight kernels, and a training step of JAX, if that is installed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from _harness import KERNCAP, Row, arguments, finish, has_gpu, launches_seen

SETUP = """
import os, sys, time
launches = int(sys.argv[1])
"""
TORCH = """
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
"""
LOOP = """
for _ in range(launches):
    call()
wait()
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
print("ready", flush=True)
for _ in sys.stdin:
    wait()
    start = time.perf_counter()
    for _ in range(launches):
        call()
    wait()
    print(f"{(time.perf_counter() - start) / launches:.9f}", flush=True)
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def small(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)

x = torch.zeros(64, device=device)
def call():
    small[(1,)](x, 64, BLOCK=64)
"""
TORCH_ADD = """
x, y, z = (torch.ones(1024, device=device) for _ in range(3))
def call(add=torch.add, x=x, y=y, z=z):
    add(x, y, out=z)
"""
GRAPH = """
x = torch.ones(1024, device=device)
for _ in range(3):
    x.add_(1)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(8):
        x.add_(1)
call = graph.replay
"""
JAX = """
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # three processes on one device
import jax, jax.numpy as jnp

@jax.jit
def step(w, x):
    loss = lambda w: jnp.mean((jnp.tanh(x @ w) - 1) ** 2)
    return w - 0.1 * jax.grad(loss)(w)

w, x = jnp.ones((64, 64)), jnp.ones((64, 64))
def call():
    global w
    w = step(w, x)
def wait():
    w.block_until_ready()
"""
MOST = 1.02  # times the plain one: an unmatched launch on a GPU


@dataclass(frozen=True)
class Program:
    """``kernel``: in the name of what each call launches, if one launch that the shims count is all of it."""

    name: str
    text: str
    kernel: str = ""


PROGRAMS = (
    Program("Triton", TORCH + TRITON, "small"),
    Program("torch.add", TORCH + TORCH_ADD, "CUDAFunctor_add"),
    Program("graph of 8 kernels", TORCH + GRAPH),
    Program("JAX", JAX),
)


class Set:
    """One process for each way."""

    def __init__(self, ways: dict[str, list[str]], env: dict[str, str]) -> None:
        self._ways = ways
        pipe = subprocess.PIPE
        self._running = {
            name: subprocess.Popen(
                command, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
            for name, command in ways.items()
        }

    def measure(self, batches: int) -> dict[str, list[float]]:
        """Seconds a launch of every batch, by way."""
        times: dict[str, list[float]] = {name: [] for name in self._ways}
        names = list(self._ways)
        for turn in range(batches):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                stdin = self._running[name].stdin
                assert stdin is not None
                print("go", file=stdin, flush=True)
                times[name].append(float(self._answer(name)))
        return times

    def start(self) -> None:
        """Wait until all have begun."""
        for name in self._ways:
            self._answer(name)

    def end(self) -> None:
        for process in self._running.values():
            process.communicate()  # end of input ends the target

    def _answer(self, name: str) -> str:
        stdout = self._running[name].stdout
        assert stdout is not None
        answer = stdout.readline()
        if not answer:
            raise SystemExit(f"{name}: the program ended; run it alone: {' '.join(self._ways[name])}")
        return answer


def measure(
    program: Program, sets: int, launches: int, batches: int, env: dict[str, str], other: str | None
) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "target.py"
        target.write_text("\n".join(textwrap.dedent(part) for part in (SETUP, program.text, LOOP)))
        plain = [sys.executable, str(target), str(launches)]
        capture = ["capture", "--keep-session", "-o", folder]
        unmatched = [*capture, "-k", "no_such_kernel", "--", *plain]
        ways = {"plain": plain, "armed, unmatched": [*KERNCAP, *unmatched]}
        if other is not None:
            ways["the other kerncap"] = [other, *unmatched]
        if program.kernel:
            never = ["-k", program.kernel, "--launch", "1000000000"]
            ways["matched, other ordinal"] = [*KERNCAP, *capture, *never, "--", *plain]
        running = [Set(ways, env) for _ in range(sets)]
        try:
            for one in running:
                one.start()
            measured = [one.measure(batches) for one in running]
        finally:
            for one in running:
                one.end()
        seen, made = launches_seen(Path(folder)), (2 * sets * batches * launches if program.kernel else 1)
    if seen < made:
        raise SystemExit(f"{program.name}: {seen:,} of {made:,} launches were seen: nothing is measured")
    rows = []
    for name in list(ways)[1:]:
        ratios = [statistics.median(times[name]) / statistics.median(times["plain"]) for times in measured]
        each = statistics.median(statistics.median(times[name]) for times in measured) * 1e6
        usual = statistics.median(statistics.median(times["plain"]) for times in measured) * 1e6
        note = f"({min(ratios):.3f} to {max(ratios):.3f} in {sets} sets of {batches * launches:,})"
        most = MOST if name == "armed, unmatched" and has_gpu() else None
        baseline, ratio = f"plain ({usual:.3f} us)", statistics.median(ratios)
        rows.append(Row(f"{program.name}: {name}", each, "us/launch", baseline, ratio, most=most, note=note))
    return rows


def main() -> int:
    """One line a program and way, with its ratio to plain."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--batches", type=int, help="turns of each process (on a GPU 20, of 1,000 launches)")
    parser.add_argument("--and", dest="other", metavar="KERNCAP", help="measure another installation, too")
    parser.add_argument("--only", choices=[program.name for program in PROGRAMS])
    options = parser.parse_args()
    env = dict(os.environ) if has_gpu() else {**os.environ, "TRITON_INTERPRET": "1"}
    launches, batches = (1_000, options.batches or 20) if has_gpu() else (100, options.batches or 6)
    # Without a GPU only Triton's interpreter launches.
    programs = PROGRAMS if has_gpu() else PROGRAMS[:1]
    if find_spec("jax") is None:
        programs = tuple(each for each in programs if each.name != "JAX")
        print("launch_overhead: JAX is not installed, so it is left out", file=sys.stderr)
    rows = [
        row
        for program in programs
        if options.only in (None, program.name)
        for row in measure(program, options.sets, launches, batches, env, options.other)
    ]
    return finish("launch_overhead", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
