"""A launch that the native shim captures: what the hook tells it, writes down, and makes of its answer."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.format.records import RecordKind
from tests.parameters import first_of

from .conftest import ADD, Outcome, Process, Run
from .fake_shim import DRIVER, build
from .test_inductor import SETUP, TUNED

JIT = DRIVER + ADD
CALL = "x, y, out = torch.ones(300), torch.ones(8)[2:6], torch.zeros(300)\n"
ONE = CALL + "add[(3,)](x, y, out, 4, BLOCK=128)\n"

RunOver = Callable[..., tuple[Outcome, list[str]]]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("fake-shim")
    return {
        "plain": str(build(folder)),
        "graphs": str(build(folder, "WITH_GRAPHS")),
        "listing": str(build(folder, "WITH_LISTING")),
        "cache": str(folder / "cache"),
    }


@pytest.fixture
def run_over(run: Run, tmp_path: Path, libraries: dict[str, str]) -> RunOver:
    """``run`` with a live shim under it; gives the calls that reached the shim too."""

    def start(script: str, shim: str = "plain", **changes: Any) -> tuple[Outcome, list[str]]:
        log = tmp_path / "log"
        log.write_text("")
        environment = {
            "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": libraries["cache"], "FAKE_SHIM": libraries[shim],
            "FAKE_SHIM_LOG": str(log),
        }  # fmt: skip
        outcome = run(script, environment={**environment, **changes.pop("environment", {})}, **changes)
        return outcome, log.read_text().splitlines()

    return start


def annotated(process: Process) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was written before launches, and after them."""
    found = process.all(RecordKind.ANNOTATION)
    return [one for one in found if "launch" in one], [one for one in found if "complete" in one]


def calls(log: list[str], *kinds: str) -> list[str]:
    return [line for line in log if line.split()[0] in kinds]


def test_a_chosen_launch_is_annotated_and_left_to_the_shim(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + ONE + "print(y.data_ptr())\n")
    assert outcome.status == 0, outcome.stderr
    process = outcome.only
    assert not process.failures and not process.launches and not process.completes
    (before,), (after,) = annotated(process)
    token = before["token"]
    assert token == after["token"] >= 1 and before["graph"] is False
    assert calls(log, "choose", "launch", "outcome") == [
        f"choose add {token} {process.folder.name}/{token}", f"launch add {token}", f"outcome add {token}"
    ]  # fmt: skip
    assert log.index("own add") < log.index(f"launch add {token}")
    launch = before["launch"]
    assert (launch["mode"], launch["ordinal"], launch["grid"]) == ("jit", 0, [3, 1, 1])
    assert launch["source"] == "source-0.json" and (process.folder / "source-0.json").exists()
    assert launch["python_stack"][-1][2] == "<module>"
    assert [a["value"].get("view") for a in launch["arguments"]] == [0, 1, 2, None, None]
    assert launch["views"][1] == {
        "address": int(outcome.stdout), "dtype": "float32", "itemsize": 4, "shape": [4], "strides": [1],
        "name": "y", "requires_grad": False, "storage": [int(outcome.stdout) - 8, 32],
    }  # fmt: skip
    complete = after["complete"]
    assert {"ttir", "ptx", "cubin", "metadata"} <= {one["stage"] for one in complete["code"]}
    assert all((process.folder / one["file"]).stat().st_size for one in complete["code"])
    assert complete["signature"]["x"] == "*fp32" and complete["compiled"]["name"]["value"] == "add"
    counts = process.counts("__main__.add")
    assert (counts["launches"], counts["captured"], counts["bytes"]) == (1, 1, 1200 + 32 + 1200)


def test_only_the_wanted_launch_is_chosen_and_every_other_is_owned(run_over: RunOver) -> None:
    script = JIT + CALL + "for n in range(5): add[(3,)](x, y, out, n + 3, BLOCK=128)\n"
    outcome, log = run_over(script, kernel="add", launch=[2, 3])
    (before,), _ = annotated(outcome.only)
    assert before["launch"]["arguments"][3]["value"]["value"] == "5"
    assert [line.split()[-1] != "0" for line in calls(log, "launch")] == [False, False, True, False, False]
    assert log[0] == "own add"
    assert outcome.only.counts("__main__.add")["launches"] == 5


NAMED = """
def named(specialization):
    return f"step_{specialization.constants['BLOCK']}"

@triton.jit(repr=named)
def step(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)
"""


@first_of("ordinal", [0, 1, 2])
def test_a_kernel_is_chosen_by_the_name_that_the_driver_sees(run_over: RunOver, ordinal: int) -> None:
    script = DRIVER + NAMED + (
        "x = torch.zeros(64)\nfor block in (16, 32, 32): step[(1,)](x, BLOCK=block)\n"
        "from triton.compiler.compiler import CompiledKernel\n"
        "print('wrapped' if hasattr(CompiledKernel.launch_metadata, '__wrapped__') else 'as before')"
    )  # fmt: skip
    outcome, log = run_over(script, kernel="step", launch=[ordinal, ordinal + 1])
    assert outcome.stdout == "as before\n", outcome.stderr
    names = ["step_16", "step_32", "step_32"]
    assert [line.split()[1] for line in calls(log, "launch")] == names
    assert [line.split()[2] != "0" for line in calls(log, "launch")] == [n == ordinal for n in range(3)]
    for name in names:
        assert log.index(f"own {name}") < log.index(next(x for x in log if x.startswith(f"launch {name}")))
    assert annotated(outcome.only)[1][0]["complete"]["compiled"]["name"]["value"] == names[ordinal]


def test_launches_under_way_are_told_apart(run_over: RunOver) -> None:
    script = (
        JIT + NAMED + CALL + "import threading\n"
        "def before(*args, **kwargs):\n"
        "    if threading.current_thread() is threading.main_thread():\n"
        "        step[(1,)](x, BLOCK=16)\n"
        "        other = threading.Thread(target=lambda: add[(9,)](x, y, out, 4, BLOCK=128))\n"
        "        other.start(); other.join()\n"
        "add.add_pre_run_hook(before)\n"
        "add[(3,)](x, y, out, 4, BLOCK=128)\n"
    )
    outcome, log = run_over(script, kernel="add")
    assert outcome.status == 0, outcome.stderr
    launched = [(line.split()[1], line.split()[2] != "0") for line in calls(log, "launch")]
    assert launched == [("step_16", False), ("add", False), ("add", True)]


@pytest.mark.parametrize(
    ("verdict", "captured", "attempts"), [(1, 1, 1), (2, 0, 3), (3, 0, 3)], ids=["kept", "dropped", "failed"]
)
def test_the_shims_answer_decides(run_over: RunOver, verdict: int, captured: int, attempts: int) -> None:
    script = JIT + f"shim.fake_set(1, {verdict})\n" + CALL
    script += "for _ in range(3): add[(3,)](x, y, out, 4, BLOCK=128)\n"
    outcome, log = run_over(script, kernel="add", when="nonfinite" if verdict == 2 else None)
    process = outcome.only
    before, after = annotated(process)
    assert (len(before), len(after)) == (attempts, captured)
    assert len(calls(log, "outcome")) == attempts
    assert process.counts("__main__.add")["captured"] == captured
    assert not process.failures  # the shim has written its reason


def test_nonfinite_needs_the_parameters_types(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + ONE, kernel="add", when="nonfinite")
    (before,), _ = annotated(outcome.only)
    assert calls(log, "types") == [f"types *fp32,*fp32,*fp32,i32 {before['token']}"]


def test_nothing_is_chosen_once_the_shim_has_the_one_launch(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + "shim.fake_disarm()\n" + ONE, kernel="add")
    assert outcome.status == 0, outcome.stderr
    assert not calls(log, "choose") and annotated(outcome.only) == ([], [])
    assert outcome.only.counts("__main__.add")["filtered"] == {"ordinal": 1}
    assert not outcome.only.failures


def test_a_choice_that_met_no_launch_is_a_failure(run_over: RunOver) -> None:
    # The launcher's name is another one than Triton says.
    script = JIT + "Launcher.__init__ = lambda self, src, metadata: setattr(self, 'name', 'other')\n" + ONE
    outcome, log = run_over(script, kernel="add")
    assert outcome.only.failures == ["the CUDA shim saw no launch of it"]
    assert calls(log, "launch") == ["launch other 0"] and calls(log, "forget")


def test_a_fault_that_the_shim_keeps_has_its_code(run_over: RunOver) -> None:
    script = JIT + (
        "class Fault(RuntimeError): pass\nerror = Fault('an illegal memory access')\n"
        "def LAUNCH(name): raise error\n" + CALL + "try: add[(3,)](x, y, out, 4, BLOCK=128)\n"
        "except Fault as caught: print(caught is error)\n"
    )
    outcome, _ = run_over(script, kernel="add", on_fault=True)
    assert outcome.stdout == "True\n", outcome.stderr
    (_,), (after,) = annotated(outcome.only)
    assert "cubin" in {one["stage"] for one in after["complete"]["code"]}


def test_an_error_before_the_launch_takes_the_choice_back(run_over: RunOver) -> None:
    script = JIT + CALL + (
        "from triton import knobs\n"
        "def broken(metadata): raise KeyError('mine')\n"
        "knobs.runtime.launch_enter_hook.add(broken)\n"
        "Launcher.__call__ = lambda self, *args: args[7](args[6])\n"
        "try: add[(3,)](x, y, out, 4, BLOCK=128)\n"
        "except KeyError as error: print(error)\n"
    )  # fmt: skip
    outcome, log = run_over(script, kernel="add")
    assert outcome.stdout == "'mine'\n", outcome.stderr
    assert outcome.only.failures == ["the launch raised KeyError: 'mine'"]
    assert calls(log, "forget") and not calls(log, "launch")


def test_what_is_written_before_outlives_a_death_at_the_launch(run_over: RunOver) -> None:
    outcome, _ = run_over(JIT + "def LAUNCH(name): os.kill(os.getpid(), 9)\n" + ONE, kernel="add")
    assert outcome.status == -signal.SIGKILL
    before, after = annotated(outcome.only)
    assert len(before) == 1 and not after


CAPTURING = """
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: True
"""


def test_in_a_graph_capture_the_choice_waits_for_the_graphs_launch(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + CAPTURING + ONE, shim="graphs", kernel="add")
    process = outcome.only
    (before,), (after,) = annotated(process)
    token = before["token"]
    assert before["graph"] is True and after["complete"]["code"] and not process.failures
    assert calls(log, "choose_in_graph", "launch", "choose", "outcome") == [
        f"choose_in_graph add {token} {process.folder.name}/{token}", "launch add 0"
    ]  # fmt: skip


def test_in_a_graph_capture_a_shim_that_cannot_is_said(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + CAPTURING + ONE, kernel="add")
    (reason,) = outcome.only.failures
    assert "CUDA graph capture" in reason and "choose" not in {line.split()[0] for line in log}
    assert calls(log, "launch") == ["launch add 0"]


def test_where_the_shim_is_not_live_the_hook_copies_itself(run_over: RunOver) -> None:
    script = JIT + (
        "shim.fake_set(0, 1)\ntorch.cuda.current_device = lambda: 0\n"
        "FACTS = types.SimpleNamespace(name='GPU', major=9, minor=0, total_memory=1)\n"
        "torch.cuda.get_device_properties = lambda index: FACTS\n" + ONE
    )
    outcome, log = run_over(script)
    (launch,) = outcome.only.launches
    assert launch["closure"]["consistency"] == "cooperative" and len(outcome.only.completes) == 1
    assert not outcome.only.all(RecordKind.ANNOTATION) and not calls(log, "choose")


def test_the_interpreter_is_the_hooks_own_under_a_live_shim(run_over: RunOver) -> None:
    load = "import ctypes, os\nctypes.CDLL(os.environ['FAKE_SHIM'], mode=ctypes.RTLD_GLOBAL)\n"
    outcome, log = run_over(load + ADD + ONE, environment={"TRITON_INTERPRET": "1"})
    assert len(outcome.only.launches) == 1 and log == []


def test_last_counts_what_the_shim_has_left(run_over: RunOver) -> None:
    script = JIT + CALL + "for _ in range(5): add[(3,)](x, y, out, 4, BLOCK=128)\n"
    outcome, _ = run_over(script, kernel="add", last=2)
    assert len(annotated(outcome.only)[1]) == 5
    assert outcome.only.counts("__main__.add")["captured"] == 2


def test_the_default_limit_counts_storages(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + ONE, limit_bytes=2000)
    assert outcome.only.counts("__main__.add")["filtered"] == {"limit": 1}
    assert not annotated(outcome.only)[0] and not calls(log, "choose")


# A launcher over torch's static kernel, which goes past Triton's own launcher.
STATIC = """
class Static:
    name = "triton_poi"
    def __init__(self, body):
        self.body = body
    def run(self, *args):
        shim.fake_launch(self.name.encode())
        return self.body(*args)
"""


@first_of("ordinal", [0, 2])
def test_inductors_static_launcher_is_chosen_by_its_kernels_name(run_over: RunOver, ordinal: int) -> None:
    pytest.importorskip("torch._inductor")
    setup = SETUP.replace("    meta = {", "    runner = Static(runner).run\n    meta = {", 1)
    outcome, log = run_over(
        DRIVER + STATIC + setup + TUNED, kernel="fused_add", launch=[ordinal, ordinal + 1]
    )
    assert outcome.status == 0 and "True 3.0" in outcome.stdout, outcome.stderr
    process = outcome.only
    (before,), (after,) = annotated(process)
    assert before["launch"]["mode"] == "inductor" and not process.failures
    assert before["launch"]["options"]["num_warps"] == {"kind": "int", "value": "4"}
    assert after["complete"]["divisibility"] == {"in_ptr0": 16}
    # Two launches of tuning, then the application's three.
    launched = [line.split()[2] != "0" for line in calls(log, "launch")]
    assert launched == [False, False] + [n == ordinal for n in range(3)]
    assert log.index("own triton_poi") < next(n for n, line in enumerate(log) if line.startswith("launch"))


WARMED = (
    "kernel = add.warmup(x, y, out, 4, BLOCK=128, grid=(1,), num_warps=8)\n"
    "for n in (4, 5, 6): kernel[(n, 1, 1)](x, y, out, n, 32)\n"
)


def test_a_kernel_that_was_warmed_up_is_captured_at_its_own_launch(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + CALL + WARMED, kernel="add", launch=[1, 2])
    process = outcome.only
    (before,), (after,) = annotated(process)
    assert not process.failures and process.counts("__main__.add")["launches"] == 3
    values = {a["name"]: a["value"].get("value") for a in before["launch"]["arguments"]}
    assert (values["n"], values["BLOCK"]) == ("5", "128")  # as it was compiled
    assert before["launch"]["grid"] == [5, 1, 1]
    assert before["launch"]["options"]["num_warps"] == {"kind": "int", "value": "8"}
    assert {one["stage"] for one in after["complete"]["code"]} >= {"ttir", "cubin"}
    assert [line.split()[2] != "0" for line in calls(log, "launch")] == [False, True, False]
    assert log[0] == "own add"


def test_a_kernel_compiled_from_ir_is_the_shims_alone(run_over: RunOver, tmp_path: Path) -> None:
    script = JIT + CALL + (
        "kernel = add.warmup(x, y, out, 4, BLOCK=128, grid=(1,))\n"
        "open('other.ttir', 'w').write(kernel.asm['ttir'].replace('@add', '@other'))\n"
        "ir = triton.compile('other.ttir', target=driver.active.get_current_target())\n"
        "shim.fake_launch(b'from here')\nir[(1, 1, 1)](x, y, out, 4)\n"
    )  # fmt: skip
    outcome, log = run_over(script)
    assert outcome.status == 0, outcome.stderr
    assert log[-1] == "launch other 0" and "own other" not in log


def test_in_a_listing_the_shim_measures_and_is_told_what_the_launch_is(run_over: RunOver) -> None:
    outcome, log = run_over(JIT + ONE, shim="listing", list_only=True)
    kernel = outcome.only.counts("__main__.add")
    told = [line for line in log if line.startswith(("config", "launch"))]
    assert told == ["config __main__.add\tBLOCK=128", "launch add 0"], "right before the launch"
    assert (kernel["launches"], kernel["rows"], kernel["timed"]) == (1, [], 0)
    assert kernel["stack"][-1][0].endswith("target.py")
    assert outcome.only.all(RecordKind.COUNTS)[-1]["clock"] is None


def test_a_launch_is_chosen_by_the_shims_ranges(run_over: RunOver) -> None:
    for pattern, chosen in (("^outer/inner$", True), ("^inner", False)):
        outcome, log = run_over(JIT + ONE, shim="listing", range=pattern)
        assert bool(calls(log, "choose")) is chosen
        if chosen:
            before, _ = annotated(outcome.only)
            assert before[0]["launch"]["range"] == ["outer", "inner"]
        else:
            assert outcome.only.counts("__main__.add")["filtered"] == {"range": 1}
