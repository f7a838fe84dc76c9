"""`kerncap tune` against Triton's own autotuner over the same configurations, each from a cold cache.

A matmul, a softmax and a flash attention, three shapes each: the time of the configuration that each finds,
and the wall time of the whole process that finds it. With ``--gpus 2``, each by those of one device, with
what they compile in the cache (one host compiles for all its devices): trials in a search of a minute, and
the wall time of a search that is over before another device would be there. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import KERNCAP, PROGRAMS, Row, arguments, capture, finish, skip_without_gpu

KERNELS = ("matmul", "softmax", "attention")
PROGRAM = PROGRAMS / "tune_kernels.py"
OPTIONS = ("num_warps", "num_stages")
SPEED, WALL, SCALING, SHORT = 0.98, 0.5, 1.8, 1.1
# Listed configurations alone, so that both choose from the same.
SAME_SPACE = ["--space", "listed", "--sampler", "grid", "--json"]
ALL = ["--sampler", "random", "--trials", "20000", "--patience", "1000000"]
MINUTE = [*ALL, "--time", "60"]
FEW = ["--sampler", "random", "--trials", "16", "--patience", "1000000"]
WIDE = ["--bound", "GROUP=1:256", "--json"]


def cold(folder: Path, command: list[str]) -> tuple[dict[str, Any], float]:
    """The document that a process prints, started with an empty cache, and its seconds."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        return run(command, cache)


def run(command: list[str], cache: str) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "TRITON_CACHE_DIR": cache}
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return json.loads(done.stdout[done.stdout.index("{") :]), seconds


def captured(folder: Path, kernel: str) -> list[str]:
    """One reproducer for each shape, in order."""
    paths = capture(
        folder / kernel,
        ["-k", f"^{kernel}$", "--launch", "0:3"],
        [sys.executable, str(PROGRAM), kernel, "counted"],
    )
    if len(paths) != 3:
        raise SystemExit(f"{kernel}: {len(paths)} of 3 shapes captured")
    # What a capture does unless it is told not to: the write set is measured once.
    commands = [[*KERNCAP, "replay", "-n", "0", str(path)] for path in paths]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    ends = [each.wait() for each in running]
    if any(ends):
        raise SystemExit(f"{kernel}: a reproducer does not replay")
    ordinal = {p: json.loads((p / "manifest.json").read_text())["launch"]["ordinal"] for p in paths}
    return [str(path) for path in sorted(paths, key=lambda each: ordinal[each])]


def against_triton(folder: Path, kernel: str) -> list[Row]:
    paths = captured(folder, kernel)
    theirs, their_s = cold(folder, [sys.executable, str(PROGRAM), kernel, "autotune"])
    ours, our_s = cold(folder, [*KERNCAP, "tune", *paths, *SAME_SPACE, "--device", "cuda:0"])
    pairs = []
    for shape, chosen in zip(ours["shapes"], theirs["chosen"], strict=True):
        names = set(shape["captured"]) | set(OPTIONS)
        fixed = {name: value for name, value in chosen.items() if value not in (None, "None")}
        mine = {**{n: v for n, v in fixed.items() if n not in names}, **shape["best"]["config"]}
        pairs.append([mine, fixed])
    wanted = folder / f"{kernel}.json"
    wanted.write_text(json.dumps(pairs))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kernel, "compare", str(wanted)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    cached = [trial.get("cached") for trial in ours["trials"] if trial["state"] in ("timed", "slow")]
    states = ", ".join(f"{count} {state}" for state, count in ours["states"].items())
    note = (
        f"{states}; {sum(map(bool, cached))} of {len(cached)} loaded what was compiled ahead; "
        f"search {ours['seconds']:.1f} s, Triton's autotuner {their_s:.1f} s"
    )
    rows = [
        Row(
            f"{kernel} {shape['arguments']}", mine, "ms", "Triton's choice (speed)", other / mine, least=SPEED
        )
        for shape, (mine, other) in zip(ours["shapes"], json.loads(done.stdout), strict=True)
    ]
    return [
        *rows,
        Row(f"{kernel} wall time", our_s, "s", "Triton's autotuner", our_s / their_s, most=WALL, note=note),
    ]


def scaling(folder: Path, gpus: int) -> list[Row]:
    """What the other devices of ``gpus`` give to a search of a minute, and what they cost a short one."""
    paths = captured(folder, "matmul")
    on = {False: ["--device", "cuda:0"], True: []}
    with tempfile.TemporaryDirectory(dir=folder) as cache:

        def tuned(is_many: bool, search: list[str]) -> tuple[dict[str, Any], float]:
            return run([*KERNCAP, "tune", *paths, *search, *WIDE, *on[is_many]], cache)

        tuned(True, ALL)  # fills the cache, wakes every device
        found = {is_many: tuned(is_many, MINUTE)[0] for is_many in (False, True)}
        # In turns; the fastest of each counts.
        walls = [(is_many, tuned(is_many, FEW)[1]) for is_many in (False, True) * 2]
    ran = {
        is_many: sum(count for state, count in each["states"].items() if state != "pruned") / len(paths)
        for is_many, each in found.items()
    }
    rate = {is_many: 60 * ran[is_many] / each["seconds"] for is_many, each in found.items()}
    note = "; ".join(
        f"{ran[is_many]:.0f} in {each['seconds']:.1f} s by {each['workers']}"
        for is_many, each in found.items()
    )
    short = {many: min(wall_s for is_many, wall_s in walls if is_many == many) for many in (False, True)}
    return [
        Row(
            f"trials a minute, {gpus} GPUs", rate[True], "1/min", "one GPU", rate[True] / rate[False],
            least=SCALING * gpus / 2, note=note,
        ),
        Row(
            f"a search of 16, {gpus} GPUs", short[True], "s", "one GPU", short[True] / short[False],
            most=SHORT,
        ),
    ]  # fmt: skip


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument(
        "--gpus", type=int, default=1, help="2: trials a minute of two devices by those of one"
    )
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="these alone")
    options = parser.parse_args()
    skip_without_gpu("tune")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.gpus > 1:
            rows = scaling(folder, options.gpus)
        else:
            rows = [row for kernel in options.kernel or KERNELS for row in against_triton(folder, kernel)]
    return finish("tune", rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
