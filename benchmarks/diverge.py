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


CASES = {
    "a difference": (CHANGED, []),
    "no difference": ([], []),
    "no difference, --native": ([], ["--native"]),
}


def rows(steps: int, cases: list[str]) -> Iterator[Row]:
    program = [*PROGRAM, "--steps", str(steps)]
    seconds(program, [*program, *CHANGED])  # Inductor compiles
    baseline = seconds(program, [*program, *CHANGED])
    for name in cases:
        changed, options = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            both = ["--", *program, "--", *program, *changed]
            words = [*KERNCAP, "diverge", "--json", "-o", folder, *options, *both]
            started = time.monotonic()
            done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
            spent = time.monotonic() - started
        found = json.loads(done.stdout)
        named = found["named"] and (found["named"]["a"] or found["named"]["b"])
        why = f"{named['kernel']}, launch {named['ordinal']}" if named else "; ".join(found["uncompared"][:3])
        note = f"{found['result']}: {why}" if why else found["result"]
        yield Row(name, spent, "s", "both programs", spent / baseline, most=MOST, note=note)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--case", choices=CASES, action="append", help="this one (default: all)")
    asked = parser.parse_args()
    skip_without_gpu("diverge")
    return finish("diverge", rows(asked.steps, asked.case or list(CASES)), asked.json)


if __name__ == "__main__":
    sys.exit(main())
