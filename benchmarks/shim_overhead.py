"""What the CUDA shim costs a launch that is not chosen: nanoseconds a call, on the stand-in driver.

A driver-API program makes the same launch calls three ways, side by side, a batch each in turns: plain
(the baseline), with the shim and no session, and under a capture whose name no kernel has. The driver is
the tests' stand-in, so no GPU is needed and a call does nothing but queue. The best batch counts: what
disturbs a call only ever makes it longer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from _harness import KERNCAP, PROGRAMS, ROOT, Row, arguments, finish, launches_seen

from kerncap import env as kerncap_env

LIMIT_NS = 100.0
BATCH = 1_000


def program() -> tuple[Path, Path]:
    """The client and the folder of the stand-in libcuda.so.1, built if need be."""
    rig, built = ROOT / "tests" / "rigs" / "cuda_driver", ROOT / "build" / "rig"
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["cmake", "-S", str(rig), "-B", str(built), "-G", "Ninja"], **quiet)  # type: ignore[call-overload]
    subprocess.run(["cmake", "--build", str(built), "--target", "rig"], **quiet)  # type: ignore[call-overload]
    cache = (built / "CMakeCache.txt").read_text().splitlines()
    include = next(line.split("=", 1)[1] for line in cache if line.startswith("KERNCAP_CUDA_INCLUDE:"))
    client = ROOT / "build" / "benchmarks" / "launch_loop"
    client.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            os.environ.get("CXX", "g++"), "-O2", "-std=c++17", "-rdynamic", f"-I{rig}", f"-isystem{include}",
            "-o", str(client), str(PROGRAMS / "launch_loop.cpp"), str(built / "libcuda.so.1"), "-lpthread",
        ],
        check=True,
    )  # fmt: skip
    return client, built


class Way:
    """One running client."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.batches: list[float] = []

    def turn(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the program ended: {self._process.args!r}")
        self.batches.append(float(answer))

    def close(self) -> None:
        self._process.communicate()


def measure(turns: int) -> list[Row]:
    shim = kerncap_env.cuda_shim()
    if shim is None:
        raise SystemExit("the CUDA shim is not built: make shims")
    client, rig = program()
    plain = [str(client), str(BATCH)]
    env = {**os.environ, "LD_LIBRARY_PATH": str(rig)}
    with tempfile.TemporaryDirectory() as folder:
        armed = [*KERNCAP, "capture", "-k", "no_such_kernel", "--keep-session", "-o", folder, "--", *plain]
        ways = {
            "plain": Way(plain, env),
            "the shim, no session": Way(plain, {**env, "LD_PRELOAD": str(shim)}),
            "armed, not chosen": Way(armed, env),
        }
        for turn in range(turns):
            names = list(ways)
            for name in names[turn % 3 :] + names[: turn % 3]:
                ways[name].turn()
        for way in ways.values():
            way.close()
        seen = launches_seen(Path(folder))
    if seen < turns * BATCH:
        raise SystemExit(f"the shim saw {seen:,} launches of {turns * BATCH:,}: nothing is measured")
    best = {name: min(way.batches) for name, way in ways.items()}
    baseline = f"plain ({best['plain']:.1f} ns)"
    rows = [
        Row(name, best[name], "ns/launch", baseline, best[name] / best["plain"]) for name in list(ways)[1:]
    ]
    added = best["armed, not chosen"] - best["plain"]
    rows.append(Row("added to a launch", added, "ns", f"{LIMIT_NS:.0f} ns", added / LIMIT_NS, most=1.0))
    return rows


def main() -> int:
    """Three lines; the status is 1 where a launch costs over 100 ns more."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        print("shim_overhead: needs cmake and ninja, skipped")
        return 0
    return finish("shim_overhead", measure(options.turns), options.json)


if __name__ == "__main__":
    sys.exit(main())
