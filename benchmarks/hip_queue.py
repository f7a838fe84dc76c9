"""What the HIP shim costs a packet that is not chosen: nanoseconds in a queue's callback.

A program that acts as the HSA runtime (the tests' stand-in) lets the shim in and calls the callback that it
registered, in turns with one that only passes its packet on, as a pass-through intercept queue has it: under
a capture whose name no kernel has. The best turn counts: what disturbs a call only ever makes it longer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from _harness import KERNCAP, PROGRAMS, ROOT, Row, arguments, finish

from kerncap import env as kerncap_env

LIMIT_NS = 200.0


def program() -> Path:
    """The client, built if need be."""
    rig, shims = ROOT / "tests" / "native" / "hip", ROOT / "shims"
    client = ROOT / "build" / "benchmarks" / "hip_callback"
    client.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            os.environ.get("CXX", "g++"), "-O2", "-std=c++17", f"-I{rig}", f"-I{shims}", "-o", str(client),
            str(PROGRAMS / "hip_callback.cpp"), str(rig / "runtime.cpp"), "-lpthread", "-ldl",
        ],
        check=True,
    )  # fmt: skip
    return client


def turns(client: Path, out: Path) -> list[tuple[float, float]]:
    command = [*KERNCAP, "capture", "--backend", "hip", "-k", "^no such kernel$", "-o", str(out), "--"]
    done = subprocess.run([*command, str(client)], capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    found = [(float(a), float(b)) for a, b in (line for line in lines if len(line) == 2)]
    if not found:
        raise SystemExit(f"{client.name} printed no times: {done.stderr.strip()}")
    return found


def main() -> int:
    options = arguments(__doc__).parse_args()
    if kerncap_env.hip_shim() is None or shutil.which(os.environ.get("CXX", "g++")) is None:
        print("hip_queue: needs the HIP shim (`make shims`) and g++; skipped", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = turns(program(), Path(folder))
    plain, shim = min(a for a, _ in found), min(b for _, b in found)
    more = shim - plain
    row = Row(
        "a packet that is not chosen",
        shim,
        "ns",
        f"{plain + LIMIT_NS:.0f} ns",
        shim / (plain + LIMIT_NS),
        most=1.0,
        note=f"{plain:.1f} ns in a pass-through intercept queue, {more:.1f} ns more: at most {LIMIT_NS:.0f}",
    )
    return finish("hip_queue", [row], options.json)


if __name__ == "__main__":
    raise SystemExit(main())
