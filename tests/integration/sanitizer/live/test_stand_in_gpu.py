"""Programs for a GPU, on a machine with none: what they ask for, and where their tensors come to be."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerncap.api.sanitize.program import LiveOptions, SanitizeResult, sanitize_command
from tests.integration.sanitizer.live.conftest import PRELUDE, analysed, run_script

PROGRAM = """
properties = torch.cuda.get_device_properties(0)
assert "H100" in properties.name and properties.multi_processor_count == 132
assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (9, 0)
assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.version.cuda
accelerator = torch.accelerator.current_accelerator()
assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
assert torch.zeros(100, device=accelerator).is_cuda and torch.accelerator.current_device_index() == 0
with getattr(torch, accelerator.type).device(accelerator):
    torch.accelerator.synchronize()
assert torch.cuda.current_stream().device == accelerator
driver = triton.runtime.driver.active
assert driver.get_current_target().arch == 90
assert driver.utils.get_device_properties(0)["multiprocessor_count"] == 132

@triton.jit
def fill(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, 1.0, mask=o < n)

def made():
    cuda = torch.device("cuda", 0)
    yield torch.empty(100, device="cuda")
    yield torch.zeros(100).cuda()
    yield torch.zeros(100).cuda(0)
    yield torch.zeros(100).to("cuda:0")
    yield torch.zeros(100).to(0)
    yield torch.zeros(100).to(cuda, torch.float16)
    yield torch.zeros(100).to(device="cuda", dtype=torch.float16)
    yield torch.zeros(100, device=0)
    yield torch.zeros(100).new_empty(100, device=cuda)
    yield torch.empty_like(torch.zeros(100), device=cuda)
    yield torch._C._dynamo.guards._empty_strided_cuda((100,), (1,), torch.float32)
    yield torch.rand(100, device=cuda, generator=torch.Generator(device="cuda").manual_seed(1))
    yield torch.zeros(100, pin_memory=True).cuda(non_blocking=True)
    yield torch.zeros(100).pin_memory()
    yield torch.nn.Linear(10, 10).cuda().weight.data.view(-1)
    yield torch.nn.Linear(10, 10, device=cuda).weight.data.view(-1)
    yield torch.nn.Linear(10, 10).to(cuda).weight.data.view(-1)
    with cuda:
        yield torch.zeros(100)
    torch.set_default_device("cuda")
    yield torch.zeros(100)
    torch.set_default_device(None)

for x in made():
    assert x.is_cuda and x.device.type == "cpu"
    with (
        torch.cuda.device(x.device),
        torch.cuda._DeviceGuard(x.device.index),
        torch.cuda.stream(torch.cuda.current_stream()),
    ):
        fill[(2,)](x, 100, 64)
    assert x.eq(1).all()

class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x):
        y = torch.empty(100, device="cuda")
        fill[(2,)](y, 100, 64)
        return x * 2 * y

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        y = torch.empty(100, device="cuda")
        fill[(2,)](y, 100, 64)
        return gradient * 2 * y

x = torch.ones(100, device="cuda", requires_grad=True)
with torch.autocast("cuda", dtype=torch.bfloat16):
    Double.apply(x).sum().backward()
assert x.grad.eq(2).all()
torch.optim.AdamW([x]).step()  # asks whether a graph is captured
assert not torch.cuda.is_current_stream_capturing()

start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record(), end.record(), torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
assert triton.testing.do_bench(lambda: fill[(2,)](x.data, 100, 64), warmup=1, rep=1) >= 0
state = torch.cuda.get_rng_state()
torch.cuda.manual_seed_all(1), torch.cuda.set_rng_state(state), torch.cuda.empty_cache()
assert isinstance(torch.default_generator, torch.Generator)
torch.save(x, "x.pt")
assert torch.load("x.pt", map_location="cuda").eq(x).all()
"""


pytestmark = pytest.mark.skipif(
    any(os.path.exists(node) for node in ("/dev/nvidiactl", "/dev/kfd")), reason="a GPU is here"
)


def _run(folder: Path, source: str, **options: str) -> SanitizeResult:
    script = folder / "script.py"
    script.write_text(PRELUDE + source, encoding="utf-8")
    hidden = {"TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES"}
    return sanitize_command(
        [sys.executable, str(script)],
        LiveOptions(**options),  # type: ignore[arg-type]
        environment={name: value for name, value in os.environ.items() if name not in hidden},
        engine=analysed(),
    )


@dataclass(frozen=True)
class _Ran:
    result: SanitizeResult
    launches: int


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> _Ran:
    folder = tmp_path_factory.mktemp("gpu")
    result = _run(folder, f"os.chdir({str(folder)!r})\n{PROGRAM}")
    return _Ran(result, sum(1 + report.repeats for report in result.reports))


def test_tensors_for_a_gpu_are_on_the_cpu_and_their_launches_are_seen(ran: _Ran) -> None:
    assert ran.result.target_status == 0
    assert ran.launches >= 18 + 2 + 1


def test_what_answered_is_said_once(ran: _Ran) -> None:
    (note,) = [note for note in ran.result.notes if "no GPU here" in note]
    assert "one NVIDIA H100 80GB HBM3 (cuda:90)" in note and 'CUDA_VISIBLE_DEVICES=""' in note


@pytest.mark.long
def test_the_answers_are_those_of_the_target(tmp_path: Path) -> None:
    program = """
assert "MI300X" in torch.cuda.get_device_name() and torch.version.hip
assert torch.cuda.get_device_properties(0).warp_size == 64
assert triton.runtime.driver.active.get_current_target().arch == "gfx942"
"""
    assert _run(tmp_path, program, target="hip:gfx942").target_status == 0


def test_a_program_that_hides_its_gpus_gets_none(tmp_path: Path) -> None:
    result = run_script(tmp_path, "assert not torch.cuda.is_available()", analysed())
    assert result.target_status == 0
    assert not any("no GPU here" in note for note in result.notes)
