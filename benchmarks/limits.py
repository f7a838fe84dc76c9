"""Shares of the device's peaks, as `replay --limits` reports them, beside ncu's own of the same launches.

Needs a GPU and ncu. Baseline: Nsight Compute's ``pct_of_peak_sustained_elapsed`` in the same run; the two
should be within 5 points. Usage: ``limits.py [MIB]``: the size of what is copied.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kerncap.api.limits import limits
from kerncap.api.replay import ReplayOptions
from kerncap.replay.limits.ncu_agreement import agreement
from kerncap.report.limits_text import render

PROGRAM = Path(__file__).parent / "programs" / "limits_kernels.py"
KERNELS = ("copy_kernel", "softmax_kernel", "matmul_kernel")
POINTS = 5.0


def main() -> int:
    worst: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="kerncap-limits-") as name:
        for kernel in KERNELS:
            out = Path(name) / kernel
            command = [
                sys.executable, "-m", "kerncap", "capture", "-k", f"^{kernel}$", "--no-self-check",
                "-o", str(out), "--", sys.executable, str(PROGRAM), *sys.argv[1:],
            ]  # fmt: skip
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (path,) = (one for one in out.iterdir() if not one.name.startswith("."))
            start = time.perf_counter()
            report = limits(path, ReplayOptions(), counters="ncu")
            print(render(report))
            print(f"took {time.perf_counter() - start:.1f} s")
            for one in agreement(report):
                print(f"  {one.what}: {one.ours:.1f} % of peak, ncu {one.theirs:.1f} % ({one.metric})")
                worst[kernel] = max(worst.get(kernel, 0.0), one.points)
            print()
    for kernel, points in worst.items():
        print(f"{kernel}: within {points:.1f} points of ncu")
    missing = [kernel for kernel in KERNELS if kernel not in worst]
    if missing:
        print(f"not compared: {', '.join(missing)}")
    return int(bool(missing) or max(worst.values(), default=0.0) > POINTS)


if __name__ == "__main__":
    sys.exit(main())
