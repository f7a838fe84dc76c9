"""Operations by Liger, FlagGems and Inductor, each two of them proved equal or not, with no GPU.

The kernels are the libraries' own (tests/integration/equality/library_calls.py). FlagGems is fetched
from PyPI into build/zoo on first use.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys

from zoo import PLACE, ROOT, installed

sys.path.insert(0, str(ROOT))
from tests.integration.equality.library_launches import Judged, calls, pairs_of

FLAGGEMS = "5.0.2"
PROVED = 39  # of all pairs, at least


def answer(one: Judged) -> str:
    if one.proof is None:
        return "not asked"
    return {True: "proved", False: "differs", None: "not proved"}[one.proof.equal]


def why(one: Judged) -> str:
    if one.proof is None:
        return one.why.splitlines()[0]
    if one.proof.witness is not None:
        return (
            f"with {one.proof.witness.inputs}: {one.proof.witness.first} against {one.proof.witness.second}"
        )
    return one.proof.reason


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operations", nargs="*", help="names of operations; default: all")
    parser.add_argument("--json", action="store_true", help="one JSON document in place of the table")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    place = installed("gems", FLAGGEMS)
    made = calls(options.operations, {**os.environ, "PYTHONPATH": str(place), "GEMS_VENDOR": "nvidia"})
    rows = []
    for one in pairs_of(made):
        rows.append(one)
        if not options.json:
            pair = f"{one.operation}: {' and '.join(one.libraries)}"
            print(f"{pair:52} {answer(one):10} {one.seconds:6.1f} s  {why(one)[:160]}", flush=True)
    proved = [one for one in rows if answer(one) == "proved"]
    median = statistics.median([one.seconds for one in proved] or [0.0])
    if options.json:
        pairs = [
            {"operation": one.operation, "libraries": one.libraries, "answer": answer(one), "why": why(one),
             "seconds": round(one.seconds, 2)}
            for one in rows
        ]  # fmt: skip
        print(json.dumps({"benchmark": "proofs", "pairs": pairs}))
    else:
        print(f"{len(proved)} of {len(rows)} pairs proved, {median:.1f} s each (median)")
    return 0 if options.operations or len(proved) >= PROVED else 1


if __name__ == "__main__":
    sys.exit(main())
