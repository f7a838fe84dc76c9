"""Runs a script under Triton's interpreter and without it, in forks of one process that has imported torch.

`python in_both_modes.py '[[TRITON_INTERPRET, [SCRIPT, ARGUMENT...]], ...]'`, each with the script's folder on
the path. Status 1: one of them failed.
"""

import json
import os
import runpy
import sys
import traceback

import torch  # noqa: F401


def run(interpret, command):
    os.environ["TRITON_INTERPRET"] = interpret
    sys.argv = command
    sys.path[0] = os.path.dirname(command[0])
    runpy.run_path(command[0], run_name="__main__")


assert "triton" not in sys.modules, "what it is depends on the mode"
pids = []
for given in json.loads(sys.argv[1]):
    pids.append(os.fork())
    if not pids[-1]:
        try:
            run(*given)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
statuses = [os.waitpid(pid, 0)[1] for pid in pids]
sys.exit(any(statuses))
