"""The same launches under triton-viz's sanitizer; one JSON line each. Runs in an environment of its own."""

import json
import sys
import time

import triton_viz
from sanitize_kernels import KERNELS, PROGRAMS
from triton_viz.clients import Sanitizer

REPEATS, ENOUGH_S = 3, 20.0

limit = float(sys.argv[1]) if len(sys.argv) > 1 else ENOUGH_S
for name, make in KERNELS.items():
    traced = None
    for programs in PROGRAMS:
        launch = make(programs)
        traced = traced or triton_viz.trace(Sanitizer(abort_on_error=False))(launch.kernel)
        best, spent, failure = float("inf"), 0.0, None
        for _ in range(REPEATS + 1):  # the first one warms up
            start = time.perf_counter()
            try:
                traced[launch.grid](*launch.arguments, **launch.constexprs)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
                break
            best = min(best, time.perf_counter() - start)
            spent += time.perf_counter() - start
            if spent > limit:
                break
        seconds = None if failure else best
        line = {"kernel": name, "programs": programs, "seconds": seconds, "error": failure}
        print(json.dumps(line), flush=True)
