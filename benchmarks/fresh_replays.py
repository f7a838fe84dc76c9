"""Fifty replays in fresh processes: whether every captured address was honoured, or which second plan served.

Without paths, kernels of the GPU tests' several.cu are captured: separate allocations, a list of them, pool,
managed and pinned memory, module variables. The baseline is the number of replays.
"""

from __future__ import annotations

import collections
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _harness import ROOT, Row, arguments, build, capture, finish, replay, skip_without_gpu

SEVERAL = ROOT / "tests" / "integration" / "cuda" / "gpu" / "targets" / "several.cu"
KERNELS = "kc_add|kc_list|kc_pool|kc_managed|kc_pinned|kc_no_arguments|kc_large_shared"


def plan_of(document: dict[str, Any]) -> str:
    """What a result says of its addresses, in few words."""
    if document["result"] != "pass":
        return "failed: " + "; ".join(document["reasons"])[:300]
    relocated = document["placement"]["relocated"]
    if not relocated:
        return "every address honoured"
    notes = [note for note in document["notes"] if "relocated" in note]
    return f"second plan: {notes[0] if notes else 'regions moved'}"


def main() -> int:
    """Counts by plan; the status is 1 unless every replay passes at its addresses or by a named plan."""
    parser = arguments(__doc__)
    parser.add_argument("reproducers", nargs="*", type=Path)
    parser.add_argument("--replays", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=6)
    options = parser.parse_args()
    skip_without_gpu("fresh_replays")
    with tempfile.TemporaryDirectory() as folder:
        paths = options.reproducers or capture(
            Path(folder) / "out", ["-k", KERNELS, "--launch", "0:1"], [str(build(SEVERAL))]
        )
        jobs = [paths[number % len(paths)] for number in range(options.replays)]
        with ThreadPoolExecutor(options.at_once) as pool:
            documents = list(pool.map(lambda path: replay(path, "-n", "0"), jobs))
    plans = collections.Counter(plan_of(document) for document in documents)
    total = len(documents)
    good = total - sum(count for plan, count in plans.items() if plan.startswith("failed"))
    rows = [
        Row("pass, honoured or by a named plan", good, "replays", f"{total} replays", good / total, least=1.0)
    ]
    rows += [
        Row(
            plan[:36],
            count,
            "replays",
            f"{total} replays",
            count / total,
            note=plan if len(plan) > 36 else "",
        )
        for plan, count in plans.most_common()
    ]
    return finish("fresh_replays", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
