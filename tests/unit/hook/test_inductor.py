"""torch.compile's autotuner, driven for real; only compiling and the device are stood in for."""

from __future__ import annotations

import struct

import pytest

from kerncap.format.records import RecordKind

from .conftest import Outcome, Run

SETUP = """
import types, torch, triton, triton.language as tl
import torch._inductor.runtime.triton_heuristics as heuristics
from triton import Config

torch.cuda.current_device = lambda: 0
FACTS = types.SimpleNamespace(name="GPU", major=9, minor=0, total_memory=1)
torch.cuda.get_device_properties = lambda index: FACTS

@triton.jit
def triton_(in_ptr0, in_out_ptr0, xnumel, flag, XBLOCK: tl.constexpr):
    pass

RUNS = []

def launcher_of(config):
    def runner(grid_0, grid_1, grid_2, stream, source, target, xnumel, flag):
        RUNS.append((config.kwargs["XBLOCK"], grid_0, stream))
        target += source
    meta = {"grid_type": "Grid1D"}
    result = heuristics.CompileResult(None, config, {}, meta)
    launcher = result._gen_launcher_code(
        {"runner": runner}, ["in_ptr0", "in_out_ptr0", "xnumel"],
        ["grid_0", "grid_1", "grid_2", "stream", "in_ptr0", "in_out_ptr0", "xnumel", "True"])
    launcher.config, launcher.n_regs, launcher.n_spills, launcher.shared = config, 8, 0, 0
    launcher.cache_hash, launcher.store_cubin = "HASH", False
    return launcher

class Tuner(heuristics.CachingAutotuner):
    def __init__(self, configs):
        meta = {
            "device": heuristics.DeviceProperties(type="cuda", index=0, multi_processor_count=1, cc=90),
            "signature": {"in_ptr0": "*fp32", "in_out_ptr0": "*fp32", "xnumel": "i32", "flag": "constexpr",
                          "XBLOCK": "constexpr"},
            "constants": {"flag": True}, "configs": [{(0,): [["tt.divisibility", 16]]}],
        }
        super().__init__(triton_, meta, configs, None, [], False, heuristics.HeuristicType.TEMPLATE,
                         inductor_meta={"grid_type": "Grid1D", "kernel_name": "triton_poi_fused_add_0"})
    def _precompile_worker(self): pass
    def _dynamic_scale_rblock(self): pass
    def _make_launchers(self):
        self.launchers = [launcher_of(config) for config in self.configs]
    def benchmark_all_configs(self, *args, **kwargs):
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        timings = {}
        for launcher in self.launchers:
            launcher(*copies, stream=0)
            timings[launcher] = 1.0 / launcher.config.kwargs["XBLOCK"]
        return timings

def is_clean(tuner):
    kept = [*tuner.launchers, getattr(tuner, "_cached_launcher", None)]
    return all(type(launcher).__name__ in ("function", "NoneType") for launcher in kept)

x, y = torch.ones(100), torch.zeros(100)
"""

TUNED = """
tuner = Tuner([Config({"XBLOCK": 16}, num_warps=2), Config({"XBLOCK": 64}, num_warps=4)])
for _ in range(3):
    tuner.run(x, y, 100, stream=5)
print(RUNS, is_clean(tuner), y[0].item())
"""


def floats(data: bytes) -> set[float]:
    return set(struct.unpack(f"<{len(data) // 4}f", data))


@pytest.mark.long
def test_the_applications_launch_is_captured_after_tuning(run: Run) -> None:
    pytest.importorskip("torch._inductor")
    environment = {"TRITON_INTERPRET": "0"}
    plain = run(SETUP + TUNED, environment=environment, hooked=False)
    assert plain.status == 0 and "True 3.0" in plain.stdout
    for ordinal in range(3):
        outcome = run(
            SETUP + TUNED, environment=environment, kernel="fused_add", launch=[ordinal, ordinal + 1]
        )
        check_launch(plain, outcome, ordinal)


def check_launch(plain: Outcome, outcome: Outcome, ordinal: int) -> None:
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, plain.stdout, plain.stderr)
    process = outcome.only
    assert not process.failures
    (launch,) = process.launches
    assert launch["mode"] == "inductor" and launch["kernel"]["name"] == "triton_poi_fused_add_0"
    assert launch["ordinal"] == ordinal and launch["grid"] == [2, 1, 1]
    assert [a["name"] for a in launch["arguments"]] == ["in_ptr0", "in_out_ptr0", "xnumel", "flag", "XBLOCK"]
    assert process.argument("XBLOCK")["value"]["value"] == "64"
    assert process.argument("XBLOCK")["role"] == "constexpr"
    assert process.argument("flag")["value"] == {"kind": "bool", "value": True}
    assert process.argument("xnumel")["signature"] == "i32"
    assert launch["options"]["num_warps"] == {"kind": "int", "value": "4"}
    assert floats(process.pre(0, "in_out_ptr0")) == {float(ordinal)}
    assert floats(process.post(0, "in_out_ptr0")) == {float(ordinal + 1)}
    assert process.completes[0]["divisibility"] == {"in_ptr0": 16}
    counts = process.counts(launch["kernel"]["qualified_name"])
    assert (counts["launches"], counts["captured"]) == (3, 1)


@pytest.mark.long
def test_a_listing_has_the_chosen_configuration_once_it_is_known(run: Run) -> None:
    pytest.importorskip("torch._inductor")
    outcome = run(SETUP + TUNED, environment={"TRITON_INTERPRET": "0"}, list_only=True)
    assert "True 3.0" in outcome.stdout and not outcome.only.failures
    [(_, counts)] = outcome.only.all(RecordKind.COUNTS)[-1]["kernels"].items()
    [row] = counts["rows"]
    assert (row["launches"], row["grid"], row["stream"], row["route"]) == (3, [2, 1, 1], "5", "inductor")
    assert "XBLOCK=64" in row["config"] and "num_warps=4" in row["config"] and counts["configs"] == 1


@pytest.mark.long
def test_a_single_configuration_and_a_benchmark_run(run: Run) -> None:
    script = SETUP + (
        "tuner = Tuner([Config({'XBLOCK': 16}, num_warps=2)])\n"
        "tuner.run(x, y, 100, stream=0, benchmark_run=True)\n"
        "tuner.run(x, y, 100, stream=0)\nprint(is_clean(tuner))"
    )
    outcome = run(script, environment={"TRITON_INTERPRET": "0"})
    assert outcome.stdout == "True\n", outcome.stderr
    process = outcome.only
    assert process.launches[0]["grid"] == [7, 1, 1]
    assert floats(process.pre(0, "in_out_ptr0")) == {1.0}
    counts = process.counts(process.launches[0]["kernel"]["qualified_name"])
    assert counts["filtered"] == {"autotuner": 1}


def test_an_error_in_tuning_is_the_targets_own(run: Run) -> None:
    script = SETUP + (
        "class Broken(Tuner):\n    def _make_launchers(self): raise RuntimeError('no valid configs')\n"
        "tuner = Broken([Config({'XBLOCK': 16})])\n"
        "try:\n    tuner.run(x, y, 100, stream=0)\nexcept RuntimeError as error: print(error)\n"
    )
    outcome = run(script, environment={"TRITON_INTERPRET": "0"})
    assert outcome.stdout == "no valid configs\n", outcome.stderr
    assert outcome.only.failures == ["the run raised RuntimeError: no valid configs"]


@pytest.mark.long
def test_where_before_the_configuration_is_known(run: Run) -> None:
    where = ["==", ["name", "xnumel"], ["const", 100]]
    process = run(SETUP + TUNED, environment={"TRITON_INTERPRET": "0"}, kernel="fused", where=where).only
    assert len(process.launches) == 1
