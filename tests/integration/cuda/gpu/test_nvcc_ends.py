"""Unchanged programs of nvcc whose launches come by other ways, or end otherwise.

Graphs, the driver's own API, NVRTC, kernels that wait for each other, a fault, a race.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kerncap.format import Reproducer, records
from tests.integration.conftest import CommandLine

from .captured import Judge, build, capture, libcuda, libnvrtc, linked, records_of

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]


def test_kernels_of_a_graph(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """Each of three is isolated: its pre-state has what the nodes before it wrote in this launch."""
    captured = capture(kerncap_of_module, build("graph.cu"), options=("-k", "kc_", "--launch", "0:1"))
    captured.target_is_unchanged()
    paths = [captured.one(name) for name in ("kc_first", "kc_second", "kc_third")]
    judge.prepare(paths)
    for path in paths:
        assert "raph" in (captured.reproducers[path].launch.route or "")
        judge.agrees(path)


def test_a_later_launch_of_a_graph(kerncap_of_module: CommandLine, judge: Judge) -> None:
    captured = capture(kerncap_of_module, build("graph.cu"), options=("-k", "kc_second", "--launch", "2"))
    captured.target_is_unchanged()
    [path] = captured.reproducers
    assert captured.reproducers[path].launch.ordinal == 2
    judge.agrees(path)


def test_ptx_through_the_driver(kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path) -> None:
    """Bound by the ELF loader; one launch by kernelParams, one by an `extra` buffer; PTX is the source."""
    program = build("driver_ptx.cu", options=linked(libcuda()))
    captured = capture(kerncap_of_module, program, options=("-k", "kc_ptx", "--launch", "0:2"))
    captured.target_is_unchanged()
    paths = [captured.one("kc_ptx", ordinal=n) for n in (0, 1)]
    judge.prepare(paths)
    for path in paths:
        judge.agrees(path)
    manifest = captured.reproducers[paths[1]]
    assert manifest.launch.parameters is not None
    assert manifest.launch.parameters.bytes.endswith("8813000005000000"), "n and step, as in the buffer"
    with Reproducer.open(paths[0]) as reproducer:
        ptx = reproducer.code("ptx")
        assert ptx is not None
        text = ptx.decode().rstrip("\0")
    same, other, nothing = (tmp_path / name for name in ("same.ptx", "other.ptx", "nothing.ptx"))
    same.write_text(text)
    judge.accepts(paths[0], same)
    other.write_text(text.replace("%r7, %r7, %r2, %r6", "%r7, %r7, %r2, %r2"))
    assert other.read_text() != text
    judge.rejects(paths[0], other)
    nothing.write_text(text.replace("mov.u32 %r3, %ctaid.x;", "ret;\n  mov.u32 %r3, %ctaid.x;"))
    judge.rejects(paths[0], nothing)


def test_a_program_of_nvrtc_has_its_source(
    kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path
) -> None:
    program = build("nvrtc.cu", options=(*linked(libcuda()), *linked(libnvrtc())))
    captured = capture(kerncap_of_module, program, options=("-k", "kc_runtime"))
    captured.target_is_unchanged()
    path = captured.one("kc_runtime")
    judge.agrees(path)
    with Reproducer.open(path) as reproducer:
        text = reproducer.source_text()
    assert text is not None and "WEIGHT" in text
    edited = tmp_path / "edited.cu"
    edited.write_text(text.replace("x[i] * WEIGHT", "WEIGHT * x[i]"))
    judge.accepts(path, edited)
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(text.replace("x[i] * WEIGHT", "x[i] + WEIGHT"))
    judge.rejects(path, wrong)


def test_a_kernel_that_waits_for_a_held_launch_is_let_go(kerncap_of_module: CommandLine) -> None:
    """The other thread's launch waits at the gate, the kernel waits for it: the deadline ends that."""
    captured = capture(
        kerncap_of_module,
        build("polling.cu"),
        options=("-k", "kc_poll|kc_after", "--launch", "0:1", "--json"),
    )
    assert captured.captured.status == captured.plain.status == 0, captured.captured.stderr
    assert captured.plain.stdout.strip() in captured.captured.stderr, "the target's result is unchanged"
    document = captured.captured.document
    assert any("kc_poll" in reason for reason in document["failed"]), document
    names = {manifest.kernel.name for manifest in captured.reproducers.values()}
    assert "kc_poll" not in names, "what did not end in time is no reproducer"


def test_a_fault_is_sealed_with_its_memory(
    kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path
) -> None:
    captured = capture(kerncap_of_module, build("fault.cu"), options=("--on-fault",))
    captured.target_is_unchanged()
    assert captured.plain.status == 7
    [path] = captured.reproducers
    with Reproducer.open(path) as reproducer:
        assert reproducer.manifest.oracle.kind == "fault"
        assert reproducer.manifest.kernel.name == "kc_gather"
        indices = next(
            reproducer.read("pre", n, 1234 * 8, 8)
            for n, region in enumerate(reproducer.manifest.regions)
            if region.size >= 4096 * 8
        )
    assert int.from_bytes(indices, "little") == 1 << 44, "the launch that faulted, not one before it"
    [again] = judge.ask(("replay", str(path)))
    assert again.result_line.startswith("Result: PASS"), again.stdout + again.stderr
    repaired = tmp_path / "repaired.cu"
    repaired.write_text(
        "__global__ void kc_gather(const float* x, const long* index, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = index[i] < n ? x[index[i]] : 0.0f;\n}\n"
    )
    [ends] = judge.ask(("replay", "--candidate", str(repaired), str(path)))
    assert ends.result_line.startswith("Result: PASS"), ends.stdout + ends.stderr


def test_after_a_fault_the_next_command_is_given(kerncap_of_module: CommandLine) -> None:
    """Without --on-fault: the last launches are named, with a command for the next run."""
    options = ("-k", "no_such_kernel", "--keep-session")
    captured = capture(kerncap_of_module, build("fault.cu"), options=options)
    captured.target_is_unchanged()
    [last] = records_of(captured, records.RecordKind.LAST)
    assert last["launches"][-1]["kernel"].startswith(("kc_gather", "_Z9kc_gather"))
    assert "kc_gather" in captured.captured.stderr and "--on-fault" in captured.captured.stderr


def test_a_race_in_one_of_ten_thousand_launches(kerncap_of_module: CommandLine, judge: Judge) -> None:
    captured = capture(
        kerncap_of_module, build("race.cu"), options=("-k", "kc_count", "--when", "differs"), timeout=300
    )
    captured.target_is_unchanged()
    [path] = captured.reproducers
    with Reproducer.open(path) as reproducer:
        manifest = reproducer.manifest
    assert manifest.launch.ordinal == 7777
    assert (manifest.oracle.kind, manifest.oracle.condition) == ("suspect", "differs")
    [done] = judge.ask(("replay", "--until-fail", "200", str(path)))
    assert done.status == 1, done.stdout + done.stderr
    assert re.search(r"[0-9]+ of [0-9]+|runs?:? [0-9]+", done.stdout), "the rate is told: " + done.stdout
