"""What `sanitize` and `verify` take for tensors of 1 MiB to 8 GiB of which 64 bytes, 1 % or all are touched.

Peak memory is that of all processes of the command together, looked at every 20 ms. The baseline of 1 % is a
tensor of that 1 % alone, all of which is touched; elsewhere it is the smallest tensor of the same run. Each
row is shown when it is measured, and what touches too much for this run is named as left out at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from _harness import KERNCAP, PROGRAMS, Row, arguments, capture, finish

PROGRAM = PROGRAMS / "sanitize_size.py"
SIZES = [20, 24, 28, 32, 33]  # log2
SHARES = ["64 bytes", "1 %", "all"]
FLAT = 1.2
UNDECIDED = 5  # an exit status
PEAK_MIB = 1024
_POLL_S = 0.02


@dataclass(frozen=True)
class Cost:
    seconds: float  # of processors: other load does not count
    mib: float
    undecided: str = ""  # the result line, if it is that


def cost_of(command: list[str]) -> Cost:
    """Ends the benchmark if the command does not end with status 0, or says that it can't decide.

    Processes are looked at while they run: one that nobody waits for is in no sum of its parent's.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        peak = 0
        seconds: dict[int, float] = {}
        while process.poll() is None:
            pids = tree(process.pid)
            peak = max(peak, sum(map(private_bytes, pids)))
            seconds.update({pid: spent for pid in pids if (spent := processor_seconds(pid))})
            time.sleep(_POLL_S)
        output.seek(0)
        errors.seek(0)
        result = output.read().rstrip().rpartition("\n")[2]
        if process.returncode not in (0, UNDECIDED):
            raise SystemExit(f"{' '.join(command)}: status {process.returncode}\n{errors.read()}")
    return Cost(sum(seconds.values()), peak / 2**20, result if process.returncode else "")


def processor_seconds(pid: int) -> float:
    """Its own, so far; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """A process and all that it started."""
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # gone
            continue
        children.setdefault(parent, []).append(int(entry))
    found, new = [], [root]
    while new:
        found.append(new.pop())
        new += children.get(found[-1], [])
    return found


def private_bytes(pid: int) -> int:
    """Its share of what it and its children have in memory for themselves; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields.get(name, "0 kB").split()[0]) << 10 for name in ("Pss_Anon", "Pss_Shmem"))


def touched_of(size: int, share: str) -> int:
    return {"64 bytes": 64, "1 %": size // 800 * 8, "all": size}[share]


def of_program(size: int, touched: int) -> Cost:
    return cost_of([*KERNCAP, "sanitize", "--", sys.executable, str(PROGRAM), str(size), str(touched)])


def of_reproducer(verb: str, size: int, touched: int) -> Cost:
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = [sys.executable, str(PROGRAM), str(size), str(touched)]
            # Not without its self-check: verify would measure what that has found.
            [path] = capture(Path(folder), ["-k", "double"], program, self_check=True)
            return cost_of([*KERNCAP, verb, str(path)])
    finally:
        del os.environ["TRITON_INTERPRET"]


COMMANDS = {
    "sanitize": of_program,
    "sanitize REPRO": partial(of_reproducer, "sanitize"),
    "verify REPRO": partial(of_reproducer, "verify"),
}


class Table:
    """Rows, shown as they come: a run may be ended before its last one."""

    def __init__(self, as_json: bool) -> None:
        self.rows: list[Row] = []
        self._as_json = as_json

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if not self._as_json:
            print(row.line(), flush=True)

    def measure(self, what: str, share: str, sizes: Iterable[int], cost: Callable[[int, int], Cost]) -> None:
        """One command on tensors of each size, of which one share is touched."""
        base: tuple[str, Cost] | None = None
        most = None if share == "all" else FLAT
        for size in sizes:
            touched = touched_of(size, share)
            name = f"{what}, {size >> 20:,} MiB, {share}"
            found = cost(size, touched)
            if share == "1 %":
                base = f"{touched:,} bytes alone", cost(touched, touched)
            elif base is None:
                base = f"{size >> 20} MiB", found
            if found.undecided:
                print(f"{name}: {found.undecided}", file=sys.stderr)
            against, first = base
            self.add(Row(name, found.seconds, "s CPU", against, found.seconds / first.seconds, most=most))
            self.add(Row(name, found.mib, "MiB peak", against, found.mib / first.mib, most=most))
            bound = None if share == "all" else 1.0
            self.add(Row(name, found.mib, "MiB peak", f"{PEAK_MIB} MiB", found.mib / PEAK_MIB, most=bound))


def main() -> int:
    """1 where a bound is missed."""
    options = arguments(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="log2 of the tensors' sizes")
    options.add_argument("--shares", nargs="+", choices=SHARES, default=SHARES, help="how much is touched")
    options.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    options.add_argument("--most-touched", type=int, default=27, help="log2 of the most bytes to touch")
    given = options.parse_args()
    table = Table(given.json)
    left_out = []
    for command in given.commands:
        for share in given.shares:
            sizes = [1 << log2 for log2 in sorted(given.sizes)]
            done = [size for size in sizes if touched_of(size, share) <= 1 << given.most_touched]
            table.measure(command, share, done, COMMANDS[command])
            left_out += [f"{command}, {size >> 20:,} MiB, {share}" for size in sizes if size not in done]
    for name in left_out:
        print(f"left out, it touches more than 2^{given.most_touched} bytes: {name}", file=sys.stderr)
    if given.json:
        return finish("sanitize_size", table.rows, as_json=True)
    return 0 if all(row.holds for row in table.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
