"""What the sanitizer's analysis of a launch costs: warm, over grids and trip counts, and beside triton-viz.

Compilation and imports are apart on both sides. triton-viz runs in an environment of its own
(build/triton-viz, made on first use) with the newest Triton that it supports, on the same kernels and
tensors; the best of several warm runs counts on both sides. Needs no GPU.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from _harness import PROGRAMS as FOLDER
from _harness import ROOT, Row, arguments, finish

sys.path.insert(0, str(FOLDER))

PEER = "triton-viz==3.0"
# Its hooks name what Triton 3.7 took out of the interpreter.
PEER_TRITON = "triton==3.6.0"
WARM_MS = 50
FLAT = 4.0  # a grid of one has no race to ask about
MEDIAN, GATHER = 10, 20


def best_ms(launch: Any, repeats: int = 7, checks: frozenset[str] | None = None) -> float:
    """Of making the `Launch` (its TTIR is compiled before) and of the analysis; all checks by default."""
    from kerncap.sanitizer.engine import sanitize
    from kerncap.sanitizer.options import Options
    from kerncap.sanitizer.sources.triton_call import launches_of

    best = float("inf")
    spent = 0.0
    for number in range(repeats + 1):
        start = time.perf_counter()
        [made] = launches_of(launch.kernel, launch.grid, launch.arguments, launch.constexprs)
        report = sanitize(made, Options() if checks is None else Options(checks=checks))
        seconds = time.perf_counter() - start
        if report.findings:
            raise SystemExit(f"{launch.kernel}: {report.findings[0].message}")
        spent += seconds
        if number:
            best = min(best, seconds)
            if spent > 20:
                break
    return best * 1e3


def flatness() -> list[Row]:
    """Warm times, and their ratios from the smallest to the largest launch."""
    import sanitize_kernels as programs  # type: ignore[import-not-found, unused-ignore]

    depth, length = 16 * 100_000, 16 * 4000
    sizes: dict[str, tuple[Any, Any, Any]] = {
        "vector add": (programs._add(1), programs._add(1_000_000), None),
        "layer norm": (
            programs._layer_norm(1),
            programs._layer_norm(1_000_000, 64),
            programs._layer_norm(1, 6_400_000),
        ),
        "matmul": (programs._matmul(1, 16), programs._matmul(1_000_000, 16), programs._matmul(1, depth)),
        "flash attention": (
            programs._attention(1, 16),
            programs._attention(1_000_000, 16),
            programs._attention(length // 16, length),
        ),
    }
    rows = []
    for name, (small, wide, long) in sizes.items():
        base = best_ms(small)
        everyday = best_ms(programs.KERNELS[name](1024))
        rows.append(
            Row(f"{name}, 1,024 programs", everyday, "ms", f"{WARM_MS} ms", everyday / WARM_MS, most=1)
        )
        grid = best_ms(wide)
        rows.append(Row(f"{name}, 10^6 programs", grid, "ms", "one program", grid / base, most=FLAT))
        if long is not None:
            trips = best_ms(long)
            rows.append(Row(f"{name}, long loop", trips, "ms", "one trip", trips / base, most=FLAT))
    return rows


def peer_python() -> Path:
    """The peer's own environment; torch and numpy come from this one."""
    folder = ROOT / "build" / "triton-viz"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", PEER, PEER_TRITON],
            check=True,
        )
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = folder / "lib" / version / "site-packages"
        (site / "zz_torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (folder / ".ready").touch()
    return python


def side_by_side() -> list[Row]:
    import sanitize_kernels as programs  # type: ignore[import-not-found, unused-ignore]

    done = subprocess.run(
        [str(peer_python()), "-W", "ignore", str(FOLDER / "sanitize_triton_viz.py")],
        cwd=FOLDER, capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip
    theirs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"kernel"')]
    if not theirs:
        raise SystemExit(f"triton-viz measured nothing: {done.stderr[-2000:]}")
    rows = []
    ratios = []
    of_all_checks = []
    for one in theirs:
        name, count = one["kernel"], one["programs"]
        if one["seconds"] is None:
            print(f"{name}, {count} programs: triton-viz fails: {one['error']}", file=sys.stderr)
            continue
        # The peer looks for accesses out of bounds alone: that is the same question.
        launch = programs.KERNELS[name](count)
        ours = best_ms(launch, checks=frozenset(("oob",)))
        ratio = one["seconds"] * 1e3 / ours
        ratios.append(ratio)
        of_all_checks.append(one["seconds"] * 1e3 / best_ms(launch))
        least = GATHER if (name, count) == ("gather", 1024) else None
        rows.append(
            Row(f"{name}, {count} programs", one["seconds"] * 1e3, "ms", f"{ours:.2f} ms here", ratio, least)
        )
    median = statistics.median(ratios)
    rows.append(Row(f"median of {len(ratios)}", median, "x", "out of bounds here", median, least=MEDIAN))
    median = statistics.median(of_all_checks)
    rows.append(Row(f"median of {len(ratios)}", median, "x", "all seven checks here", median))
    return rows


def main() -> int:
    """1 where a bound is missed."""
    options = arguments(__doc__)
    options.add_argument("--no-peer", action="store_true", help="without triton-viz")
    given = options.parse_args()
    rows = flatness()
    if not given.no_peer:
        rows += side_by_side()
    return finish("sanitize", rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
