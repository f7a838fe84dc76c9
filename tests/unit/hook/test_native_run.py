"""The look-up of ``run`` in the CUDA shim, in a process that has it preloaded and never calls a driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerncap import env as kerncap_env

from .conftest import HOOK, options

# `hooked(changes)` is a session; Kernel as little of Triton's JITFunction as a launch needs.
START = """
import gc, inspect, json, os, sys, threading
folder, hook, root = sys.argv[1:]
sys.path[:0] = [hook, root]
from kerncap_triton import run_hook, session
from tests.counted_work import calls_of

class Kernel:
    def __init__(self, function):
        self.fn = function
        self.signature = inspect.signature(function)
        self.arg_names = list(self.signature.parameters)
        self.ran = []
    def run(self, *args, grid, warmup, **kwargs):
        self.ran.append((args, grid, warmup, kwargs))
    def warmup(self, *args, grid, **kwargs):
        return self.run(grid=grid, warmup=True, *args, **kwargs)
    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

def add(x, BLOCK):
    pass

plain, original = Kernel(add), Kernel.run
launched = session.Session(folder + "/session.json")
run_hook.patch(launched, Kernel, "jit")

def launch(kernel, times):
    for n in range(times):
        kernel[(8,)](n, BLOCK=128)

def show():
    launched.write_counts()
    print(json.dumps([[one.kernel.name, one.launches, one.filtered] for one in launched.all_counters()]))
"""


def output(script: str, folder: Path, **changes: Any) -> list[Any]:
    """What the script prints, a JSON value a line."""
    shim = kerncap_env.cuda_shim()
    if shim is None:
        pytest.skip("the CUDA shim is not built")
    (folder / "session.json").write_text(json.dumps(options(**changes)))
    (folder / "arm").write_bytes(bytes(4096))
    environment = {name: text for name, text in os.environ.items() if name != "KERNCAP_SESSION"}
    done = subprocess.run(
        [sys.executable, "-c", START + script, str(folder), str(HOOK), str(HOOK.parents[1])],
        env={**environment, "LD_PRELOAD": str(shim)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kernel": "other"}, "name"),
        ({"kernel": "add", "launch": [10**9, 10**9 + 1]}, "ordinal"),
        ({"kernel": "add", "ranks": [1]}, "rank"),
    ],
)
def test_a_launch_of_no_interest_runs_nothing_of_pythons(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    kind, added, ran, counts = output(
        "kernel = Kernel(add)\n"
        "print(json.dumps(type(vars(Kernel)['run']).__name__))\n"
        "launch(kernel, 5000)\n"
        "Kernel.run, ours = original, vars(Kernel)['run']\n"
        "without = calls_of(lambda: launch(plain, 1000))\n"
        "Kernel.run = ours\n"
        "print(json.dumps(calls_of(lambda: launch(kernel, 1000)) - without))\n"
        "print(json.dumps(kernel.ran[4999:5001]))\n"
        "show()\n",
        tmp_path,
        **changes,
    )
    assert kind == "RunLookup"
    assert added < 200  # 1,000 launches, and a look now and then
    assert ran == [[[n], [8], False, {"BLOCK": 128}] for n in (4999, 0)]
    assert counts == [["add", 6000, {reason: 6000}]]


def test_all_look_ups_are_counted_and_only_launches(tmp_path: Path) -> None:
    counts, after, child = output(
        "kernel, other = Kernel(add), Kernel(lambda x, BLOCK: None)\n"
        "threads = [threading.Thread(target=launch, args=(kernel, 3000)) for _ in range(4)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "for _ in range(50): kernel.warmup(1, grid=(1,), BLOCK=1)\n"
        "launch(other, 7)\n"
        "assert len(kernel.ran) == 12050 and len(other.ran) == 7\n"
        "show()\n"
        # One that has a method of its own, and one that takes another's place in memory.
        "kernel.run = lambda *args, **kwargs: None\n"
        "launch(kernel, 5)\n"
        "del kernel.run\n"
        "for n in range(200):\n"
        "    passing = Kernel(add)\n"
        "    launch(passing, 3)\n"
        "    assert len(passing.ran) == 3\n"
        "    del passing; gc.collect()\n"
        "launch(kernel, 1)\n"
        "show()\n"
        "sys.stdout.flush()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    launch(kernel, 10); show(); sys.stdout.flush(); os._exit(0)\n"
        "os.waitpid(pid, 0)\n",
        tmp_path,
        kernel="no_such_kernel",
    )
    assert counts == [["add", 12000, {"name": 12000}], ["<lambda>", 7, {"name": 7}]]
    assert after[0] == ["add", 12601, {"name": 12601}]
    assert child == [["add", 10, {"name": 10}]]


def test_what_the_class_and_subclasses_have_is_a_function(tmp_path: Path) -> None:
    name, ran = output(
        "class Derived(Kernel):\n"
        "    def run(self, *args, **kwargs):\n"
        "        return super().run(*args, **kwargs)\n"
        "print(json.dumps(Kernel.run.__name__))\n"
        "kernel = Derived(add)\n"
        "launch(kernel, 100)\n"
        "Kernel.run(kernel, 1, grid=(2,), warmup=False, BLOCK=1)\n"
        "print(json.dumps([len(kernel.ran), launched.all_counters()[0].kernel.name]))\n",
        tmp_path,
        kernel="no_such_kernel",
    )
    assert name == "run" and ran == [101, "add"]


def test_launches_go_on_when_the_hook_is_gone(tmp_path: Path) -> None:
    # As at the interpreter's end, which takes modules apart in any order.
    counted, ran = output(
        "kernel = Kernel(add)\n"
        "launch(kernel, 100)\n"
        "show()\n"
        "del launched, run_hook, session\n"
        "for name in [name for name in sys.modules if name.startswith('kerncap_triton')]:\n"
        "    vars(sys.modules[name]).clear()\n"
        "    del sys.modules[name]\n"
        "gc.collect()\n"
        "launch(kernel, 20)\n"
        "print(len(kernel.ran))\n",
        tmp_path,
        kernel="no_such_kernel",
    )
    assert counted == [["add", 100, {"name": 100}]] and ran == 120


def test_a_session_that_can_be_armed_looks_at_its_page(tmp_path: Path) -> None:
    (kind,) = output("print(json.dumps(type(vars(Kernel)['run']).__name__))\n", tmp_path, dormant=True)
    assert kind == "ArmableRunHook"
