"""What `kerncap diverge` costs on training steps of a Llama: the whole search, and without a difference.

Baseline: the two programs, run one after another without kerncap. The cache of compiled kernels is warm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from _harness import KERNCAP, PROGRAMS, Row, arguments, finish, skip_without_gpu

PROGRAM = [sys.executable, str(PROGRAMS / "llama_step.py")]
CHANGED = ["--eps", "1e-3"]
MOST = 3.0


def seconds(*commands: list[str]) -> float:
    started = time.monotonic()
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def rows(steps: int) -> Iterator[Row]:
    program = [*PROGRAM, "--steps", str(steps)]
    seconds(program, [*program, *CHANGED])  # Inductor compiles
    baseline = seconds(program, [*program, *CHANGED])
    for name, other, options in (
        ("no difference", program, []),
        ("a difference", [*program, *CHANGED], []),
        ("no difference, --native", program, ["--native"]),
    ):
        with tempfile.TemporaryDirectory() as folder:
            words = [*KERNCAP, "diverge", "--json", "-o", folder, *options, "--", *program, "--", *other]
            started = time.monotonic()
            done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
            spent = time.monotonic() - started
        found = json.loads(done.stdout)
        named = found["named"] and (found["named"]["a"] or found["named"]["b"])
        note = found["result"] + (f": {named['kernel']}, launch {named['ordinal']}" if named else "")
        yield Row(name, spent, "s", "both programs", spent / baseline, most=MOST, note=note)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    skip_without_gpu("diverge")
    return finish("diverge", rows(asked.steps), asked.json)


if __name__ == "__main__":
    sys.exit(main())
