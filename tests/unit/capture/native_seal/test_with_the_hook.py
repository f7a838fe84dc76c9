"""Launches that the Triton hook describes and the shim takes."""

from __future__ import annotations

from kerncap.format.records import RecordKind
from tests.unit.capture.native_seal.session import CUBIN, Run
from tests.unit.capture.recorded import BASE, counts_payload

BEFORE = {
    "mode": "jit",
    "kernel": {"name": "add", "qualified_name": "app.add", "module": "app", "file": "/a.py", "line": 3},
    "ordinal": 5,
    "grid": [4, 1, 1],
    "arguments": [{"name": "x", "role": "runtime", "value": {"kind": "tensor", "view": 0}}],
    "views": [
        {"address": BASE + 64, "dtype": "float32", "itemsize": 4, "shape": [16], "strides": [1], "name": "x"}
    ],
    "options": {"num_warps": {"kind": "int", "value": "4"}},
}
AFTER = {
    "code": [{"stage": "ttir", "file": "code/add-1.ttir"}],
    "signature": {"x": "*fp32"},
    "compiled": {},
    "divisibility": {},
}


def test_an_annotated_launch_waits_for_the_hook_and_is_joined(run: Run) -> None:
    native = run.process(4242, 0)
    hook = run.process(4242, 1, shim="triton")
    (hook.folder / "code" / "add-1.ttir").write_bytes(b"module {}")
    hook.say(RecordKind.ANNOTATION, {"token": 7, "launch": BEFORE})
    native.native(0, CUBIN, annotation="4242-1/7")
    native.complete(0)
    run.collector.poll()
    assert run.collector.sealed == [], "the hook has more to say"
    hook.say(RecordKind.ANNOTATION, {"token": 7, "complete": AFTER})
    run.collector.poll()
    manifest = run.only()
    assert (manifest.kernel.language, manifest.kernel.qualified_name) == ("triton", "app.add")
    assert (manifest.launch.mode, manifest.launch.ordinal, manifest.launch.block) == ("jit", 5, (256, 1, 1))
    assert (manifest.views[0].region, manifest.views[0].offset) == (0, 64)
    assert manifest.arguments[0].signature == "*fp32"
    assert manifest.closure.consistency == "gated" and manifest.platform.packages["triton"] == "3.5"
    assert [code.stage for code in manifest.code] == ["ttir"]
    run.finish(native, hook)
    assert len(run.collector.sealed) == 1


def test_a_hook_that_died_at_the_launch_costs_its_last_words_alone(run: Run) -> None:
    native = run.process(4242, 0)
    hook = run.process(4242, 1, shim="triton")
    hook.say(RecordKind.ANNOTATION, {"token": 7, "launch": BEFORE})
    native.native(0, CUBIN, annotation="4242-1/7")
    native.complete(0)
    hook.end()
    run.collector.poll()
    manifest = run.only()
    assert manifest.kernel.language == "triton"
    assert [code.stage for code in manifest.code] == ["cubin"], "the shim has seen the image"
    native.end()


def test_a_launch_whose_hook_never_spoke_stays_native(run: Run) -> None:
    process = run.process()
    process.native(0, CUBIN, annotation="4242-9/7")
    process.complete(0)
    run.finish(process)
    assert run.only().kernel.language == "cuda"


def test_words_that_do_not_fit_are_said(run: Run) -> None:
    native = run.process(4242, 0)
    hook = run.process(4242, 1, shim="triton")
    far = [{**BEFORE["views"][0], "address": 0x1000}]  # type: ignore[index]
    hook.say(RecordKind.ANNOTATION, {"token": 7, "launch": {**BEFORE, "views": far}})
    native.native(0, CUBIN, annotation="4242-1/7")
    native.complete(0)
    run.finish(native, hook)
    [line] = run.collector.failed
    assert "argument x" in line and run.collector.unsealed == 1


def test_a_triton_kernel_is_counted_once(run: Run) -> None:
    native = run.process(4242, 0)
    hook = run.process(4242, 1, shim="triton")
    hook.say(RecordKind.SEEN, {"kernel": "add", "qualified_name": "app.add"})
    hook.counts({"app.add": counts_payload(3)})
    native.counts({"add": counts_payload(3), "gemm(float*)": counts_payload(2)})
    run.collector.poll()
    kernels, totals = run.collector.counts()
    assert {name: counts.launches for name, counts in kernels.items()} == {"app.add": 3, "gemm(float*)": 2}
    assert totals.launches == 5
    native.end()
    hook.end()
