"""The time of a kernel alone against its time in the application: a 4096 x 4096 x 4096 bf16 product.

The application stays alive and takes turns with replays, 200 warm launches each, so that clocks and
temperature are the same for both. Two ways: launches that follow each other in a graph, and single launches
between events (a replay restores what the launch dirties before each, the application does not).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _harness import PROGRAMS, Row, arguments, capture, finish, replay, skip_without_gpu

LAUNCHES = 200


class Application:
    """The uncaptured program, asked for times."""

    def __init__(self) -> None:
        command = [sys.executable, str(PROGRAMS / "matmul.py")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def median_ms(self, way: str) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(way, LAUNCHES, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def rows_of(path: Path, turns: int) -> list[Row]:
    application = Application()
    theirs: dict[str, list[float]] = {"graph": [], "events": []}
    ours: dict[str, list[float]] = {"graph": [], "events": []}
    for way in theirs:
        application.median_ms(way)  # not counted: clocks rise
    for turn in range(2 * turns):
        if turn % 2 == 0:
            for way, times in theirs.items():
                times.append(application.median_ms(way))
            continue
        document = replay(path, "-n", str(LAUNCHES))
        timing: Any = document["timing"]
        if document["result"] != "pass" or timing is None:
            raise SystemExit(f"the replay fails: {document['reasons']}")
        ours["events"].append(timing["median_ms"])
        if timing.get("warm_ms"):
            ours["graph"].append(timing["warm_ms"])
    application.close()
    rows = []
    for way, words in (("graph", "launches in a graph, warm"), ("events", "single launches")):
        if not ours[way]:
            continue
        mine, usual = statistics.median(ours[way]), statistics.median(theirs[way])
        # Single launches are judged only where the replay can't say the warm time.
        bounds = (0.97, 1.03) if way == "graph" or not ours["graph"] else (None, None)
        note = f"({min(ours[way]):.4f} to {max(ours[way]):.4f} ms in {turns} turns)"
        baseline = f"the application ({usual * 1e3:.2f} us)"
        rows.append(Row(f"isolated, {words}", mine * 1e3, "us", baseline, mine / usual, *bounds, note=note))
    return rows


def main() -> int:
    """Two lines; the status is 1 where the warm time is off."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    skip_without_gpu("kernel_time")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(PROGRAMS / "matmul.py")]
        [path] = capture(Path(folder) / "out", ["-k", "nvjet", "--launch", "2"], command)
        return finish("kernel_time", rows_of(path, options.turns), options.json)


if __name__ == "__main__":
    sys.exit(main())
