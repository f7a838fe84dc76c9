"""What `sanitize` and `verify` take for tensors of 1 MiB to 8 GiB of which 64 bytes, 1 % or all are touched.

Peak memory is that of all processes of the command together: what they have for themselves, looked at every
20 ms. The baseline of each row is the smallest tensor of the same run; if more is touched, per byte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _harness import KERNCAP, PROGRAMS, Row, arguments, capture, finish

PROGRAM = PROGRAMS / "sanitize_size.py"
SIZES = [1 << 20, 1 << 24, 1 << 28, 1 << 32, 1 << 33]
FLAT = 1.2
PEAK_MIB = 1024
_POLL_S = 0.02


@dataclass(frozen=True)
class Cost:
    seconds: float  # of processors: other load does not count
    mib: float


def cost_of(command: list[str], statuses: tuple[int, ...] = (0,)) -> Cost:
    """Ends the benchmark if the command ends with another status."""
    before = os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(private_bytes, tree(process.pid))))
        time.sleep(_POLL_S)
    assert process.stderr is not None
    if process.returncode not in statuses:
        raise SystemExit(f"{' '.join(command)}: status {process.returncode}\n{process.stderr.read()}")
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(seconds, peak / 2**20)


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
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # gone
        return 0
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields.get(name, "0 kB").split()[0]) << 10 for name in ("RssAnon", "RssShmem"))


def touched_of(size: int, share: str) -> int:
    return {"64 bytes": 64, "1 %": size // 100, "all": size}[share]


def sanitized(size: int, share: str) -> Cost:
    words = [str(size), str(touched_of(size, share))]
    return cost_of([*KERNCAP, "sanitize", "--", sys.executable, str(PROGRAM), *words])


def captured(folder: Path, size: int, share: str) -> Path:
    program = [sys.executable, str(PROGRAM), str(size), str(touched_of(size, share))]
    return capture(folder / str(size), ["-k", "double"], program)[0]


def rows_of(what: str, sizes: list[int], share: str, costs: list[Cost], peak: bool) -> list[Row]:
    rows = []
    flat = share == "64 bytes"
    for size, cost in zip(sizes, costs, strict=True):
        name = f"{what}, {size >> 20:,} MiB, {share}"
        base = f"{sizes[0] >> 20} MiB"
        if size != sizes[0]:
            most = FLAT if flat and peak else None
            rows.append(Row(name, cost.seconds, "s CPU", base, cost.seconds / costs[0].seconds, most=most))
            rows.append(Row(name, cost.mib, "MiB peak", base, cost.mib / costs[0].mib, most=most))
        most = 1.0 if flat and peak else None
        rows.append(Row(name, cost.mib, "MiB peak", f"{PEAK_MIB} MiB", cost.mib / PEAK_MIB, most=most))
    return rows


def main() -> int:
    """1 where a bound is missed."""
    options = arguments(__doc__)
    options.add_argument("--largest", type=int, default=33, help="log2 of the largest tensor (default: 33)")
    options.add_argument(
        "--largest-touched",
        type=int,
        default=26,
        help="log2 of the most bytes that are touched (default: 26)",
    )
    options.add_argument(
        "--largest-verify",
        type=int,
        default=28,
        help="log2 of the largest that is captured and replayed (default: 28)",
    )
    given = options.parse_args()
    rows: list[Row] = []
    for share in ("64 bytes", "1 %", "all"):
        sizes = [
            one
            for one in SIZES
            if one <= 1 << given.largest and touched_of(one, share) <= 1 << given.largest_touched
        ]
        costs = [sanitized(size, share) for size in sizes]
        rows += rows_of("sanitize", sizes, share, costs, peak=True)
    os.environ["TRITON_INTERPRET"] = "1"
    for share in ("64 bytes", "1 %", "all"):
        sizes = [
            one
            for one in SIZES
            if one <= 1 << given.largest_verify and touched_of(one, share) <= 1 << given.largest_touched
        ]
        with tempfile.TemporaryDirectory() as folder:
            found = [captured(Path(folder), size, share) for size in sizes]
            for verb, bounded in (("sanitize", True), ("verify", False)):
                costs = [cost_of([*KERNCAP, verb, str(path)]) for path in found]
                rows += rows_of(f"{verb} REPRO", sizes, share, costs, bounded)
    return finish("sanitize_size", rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
