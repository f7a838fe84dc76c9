"""Answers for cases of the suite, one JSON document per line; started by `client`."""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

from tests.integration.sanitizer.oracle.launch import brute_force
from tests.integration.sanitizer.oracle.verdicts import Verdict
from tests.integration.sanitizer.suite.cases import CASES


def document(verdict: Verdict) -> dict[str, Any]:
    return {
        "violations": [
            {"check": check, "line": line, "argument": argument, "points": sorted(points)}
            for (check, line, argument), points in verdict.violations.items()
        ],
        "races": sorted(verdict.races, key=str),
        "identical": sorted(verdict.identical, key=str),
        "events": verdict.events,
    }


def main() -> None:
    request = json.load(sys.stdin)
    sys.setrecursionlimit(20_000)
    answers = sys.stdout
    sys.stdout = sys.stderr  # kernels may print
    for module in request["modules"]:
        importlib.import_module(module)
    for name in request["cases"]:
        one = CASES[name]
        start = time.process_time()
        try:
            verdict = brute_force(one.kernel, one.grid, one.arguments, one.fresh, one.bounds, one.huge)
            answer = document(verdict)
        except Exception as error:  # what the interpreter cannot run is an answer too
            answer = {"failure": f"{type(error).__name__}: {error}"}
        answer["case"] = name
        answer["seconds"] = time.process_time() - start
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
