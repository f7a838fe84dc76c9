"""How long `kerncap --help` takes, against a Python that does nothing.

Prints the best of several, the ratio and the absolute limit of 0.2 s; the interpreter's own start is
most of it. Best, because what disturbs a start only ever makes it longer.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
LIMIT_S = 0.2


def once(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    script = Path(sys.executable).with_name("kerncap")
    help_command = [str(script), "--help"] if script.exists() else [sys.executable, "-m", "kerncap", "--help"]
    commands = {"python -c pass": [sys.executable, "-c", "pass"], "kerncap --help": help_command}
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(ROUNDS):  # interleaved, so that a slow moment hits both
        for name, command in commands.items():
            best[name] = min(best[name], once(command))
    plain, ours = best.values()
    for name, seconds in best.items():
        print(f"{name:<16} {seconds * 1e3:6.1f} ms (best of {ROUNDS})")
    print(f"ratio to a Python that does nothing: {ours / plain:.2f}x")
    print(f"under {LIMIT_S} s: {'yes' if ours < LIMIT_S else 'no'}")
    return 0 if ours < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
