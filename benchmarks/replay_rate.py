"""How many replays a second a resident engine makes of a launch with 1 MiB of closure.

Two kinds: timed runs (restored and launched), and `--until-fail` (restored, launched and compared byte by
byte each time). The wall clock of many replays less that of few, so that the start of the process is left
out. The baseline is a process for each replay.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from _harness import PROGRAMS, Row, arguments, build, capture, finish, replay, skip_without_gpu

LEAST = 2_000  # replays a second


def seconds(path: Path, *options: str) -> float:
    start = time.perf_counter()
    document = replay(path, *options)
    if document["result"] != "pass":
        raise SystemExit(f"the replay fails: {document['reasons']}")
    return time.perf_counter() - start


def rate(path: Path, option: str, few: int, many: int, extra: tuple[str, ...] = ()) -> float:
    """Replays a second from the best of two differences."""
    differences = []
    for _ in range(2):
        spent = seconds(path, option, str(many), *extra) - seconds(path, option, str(few), *extra)
        differences.append((many - few) / max(spent, 1e-9))
    return min(differences)  # the start of a process varies more than a few replays take


def main() -> int:
    """Two lines; the status is 1 where one is below 2,000 a second."""
    parser = arguments(__doc__)
    parser.add_argument("--replays", type=int, default=60_000)
    options = parser.parse_args()
    skip_without_gpu("replay_rate")
    with tempfile.TemporaryDirectory() as folder:
        program = build(PROGRAMS / "megabyte.cu")
        [path] = capture(Path(folder) / "out", ["-k", "kc_megabyte"], [str(program)])
        seconds(path, "-n", "1")  # measures the write set and keeps it
        fresh = 3 / sum(seconds(path, "-n", "0") for _ in range(3))
        timed = rate(path, "-n", 100, options.replays)
        compared = rate(path, "--until-fail", 64, options.replays, ("-n", "0"))
    baseline = f"a process each ({fresh:.2f}/s)"
    least = LEAST / fresh
    rows = [
        Row("restored and launched", timed, "replays/s", baseline, timed / fresh, least=least),
        Row(
            "restored, launched and compared", compared, "replays/s", baseline, compared / fresh, least=least
        ),
    ]
    return finish("replay_rate", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
