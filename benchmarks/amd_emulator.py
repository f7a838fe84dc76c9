"""What the emulated AMD GPU costs: processor seconds of five kernels, against another checkout's emulator.

``--against FOLDER`` is that build/amd-gpu; both run the same program in turns, and must leave the same bytes.
The best turn counts: what disturbs one only ever makes it longer. ``--wall`` measures the time that passes,
with as many threads as the emulators start; then atomics come in any order, and the bytes aren't compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from _harness import PROGRAMS, ROOT, Row, arguments, finish

KERNELS = ("product", "matrix", "reduce", "blend", "norm")
LAUNCHES, TURNS = "8", 3


def turn(folder: Path, program: Path, kernel: str, wall: bool) -> tuple[float, str]:
    """Seconds, and a hash of what the kernel left."""
    command = [str(folder / "run"), str(program), kernel, LAUNCHES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    processor, passed, made = done.stdout.split()
    return float(passed if wall else processor), made


def rows(program: Path, here: Path, other: Path, wall: bool) -> Iterator[Row]:
    for kernel in KERNELS:
        turns = [[turn(folder, program, kernel, wall) for folder in (other, here)] for _ in range(TURNS)]
        if not wall and len({made for pair in turns for _, made in pair}) != 1:
            raise SystemExit(f"amd_emulator: {kernel}: the emulators leave different bytes")
        old, new = (min(pair[side][0] for pair in turns) for side in range(2))
        yield Row(kernel, new, "s", f"{old:.3f} s", old / new, least=0.9, note="times as fast")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--against", type=Path, help="build/amd-gpu of another checkout")
    parser.add_argument("--wall", action="store_true", help="time that passes, with all threads")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.rigs import amd_gpu

    rig = amd_gpu.find()
    if isinstance(rig, str) or options.against is None:
        why = rig if isinstance(rig, str) else "needs --against FOLDER"
        print(f"amd_emulator: {why}; skipped", file=sys.stderr)
        return 0
    os.environ.pop("AMD_GPU_GFX", None)
    if options.wall:
        os.environ.pop("AMD_GPU_THREADS", None)
    else:
        os.environ["AMD_GPU_THREADS"] = "1"  # atomics in one order
    with tempfile.TemporaryDirectory() as folder:
        program = rig.build(PROGRAMS / "amd_kernels.hip", Path(folder) / "amd_kernels")
        return finish("amd_emulator", rows(program, rig.folder, options.against, options.wall), options.json)


if __name__ == "__main__":
    raise SystemExit(main())
