"""Launches of a native shim become reproducers: parameters, stripes, images, annotations, faults."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture import languages, native_arguments, payloads
from kerncap.capture.collect import Collector
from kerncap.capture.native_seal import MAX_FATBIN_STORED
from kerncap.capture.seal import Sealer
from kerncap.capture.target import TargetResult
from kerncap.format import Reproducer, schema
from kerncap.format.records import RecordKind
from tests.unit.capture.built_images import PTX_TEXT, cubin, entry, fatbin
from tests.unit.capture.recorded import (
    BASE,
    BYTES,
    DEMANGLED,
    LAYOUT,
    MANGLED,
    PARAMETERS,
    RecordedProcess,
    bare_session,
    counts_payload,
    native_payload,
    post_bytes,
    pre_bytes,
    sealer,
)

CUBIN = cubin(90, {MANGLED: [(0, 8), (8, 8), (16, 4), (24, 8), (32, 16)]})


class Run:
    def __init__(self, folder: Path, **options: Any) -> None:
        self.session = bare_session(folder / "session")
        self.output = folder / "out"
        self.output.mkdir()
        self.collector = Collector(self.session.folder, sealer(self.session, self.output), **options)

    def process(self, pid: int = 4242, forks: int = 0, shim: str = "cuda") -> RecordedProcess:
        return RecordedProcess(self.session.folder, pid, forks, shim)

    def finish(self, *processes: RecordedProcess, target: TargetResult | None = None) -> None:
        for process in processes:
            process.end()
        self.collector.finish(target or TargetResult(0, 4242))

    def seal(self, code: bytes | None, **record: Any) -> None:
        """The session of one launch, which completes."""
        process = self.process()
        process.native(0, code, **record)
        process.complete(0)
        self.finish(process)

    def sealed(self, code: bytes | None, **record: Any) -> schema.Manifest:
        self.seal(code, **record)
        return self.only()

    def only(self) -> schema.Manifest:
        assert self.collector.failed == []
        [sealed] = self.collector.sealed
        with Reproducer.open(sealed.path) as reproducer:
            reproducer.verify()
            return reproducer.manifest


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


# --- the manifest ----------------------------------------------------------------------------------


def test_a_native_launch_is_sealed_with_everything(run: Run) -> None:
    process = run.process()
    process.native(0, CUBIN, notes=["2 textures are alive"])
    process.complete(0, signature={}, divisibility={})
    run.finish(process)
    manifest = run.only()
    kernel, launch = manifest.kernel, manifest.launch
    assert (kernel.name, kernel.qualified_name, kernel.language) == ("scale", DEMANGLED, "cuda")
    assert kernel.mangled == MANGLED
    assert (launch.mode, launch.block, launch.cluster, launch.shared_bytes) == (
        "native",
        (256, 1, 1),
        None,
        1024,
    )
    assert (launch.route, launch.stream, launch.cooperative) == ("cuLaunchKernel", "0x0", False)
    assert launch.attributes == (schema.LaunchAttribute(id=4, value="01" * 64),)
    assert launch.parameters is not None and launch.parameters.bytes == PARAMETERS.hex()
    assert launch.parameters.layout == tuple(map(tuple, LAYOUT))
    assert manifest.closure.consistency == "gated"
    assert [code.stage for code in manifest.code] == ["cubin"]
    assert manifest.compiled["cubin_arch"] == schema.StrValue(value="sm_90")
    assert "2 textures are alive" in manifest.notes
    [sealed] = run.collector.sealed
    assert sealed.path.name.startswith("scale-") and sealed.closure_mode == "reachable"
    with Reproducer.open(sealed.path) as reproducer:
        assert reproducer.read("pre", 0, 0, BYTES) == pre_bytes(0)
        assert reproducer.read("post", 0, 0, BYTES) == post_bytes(0)
        assert reproducer.code("cubin") == CUBIN


@pytest.mark.parametrize("calls", ["malloc", "free", "vprintf"])
def test_a_module_with_a_heap_is_named_at_capture(
    run: Run, calls: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What earlier launches left there can't be put back: a replay that needs it is undecided."""
    process = run.process()
    process.native(0, cubin(90, {MANGLED: [(0, 8), (8, 8), (16, 4), (24, 8), (32, 16)]}, calls=calls))
    process.complete(0)
    run.finish(process)
    heap = calls != "vprintf"
    assert ("scale: its module calls the device's malloc" in capsys.readouterr().err) == heap
    assert any("is not captured" in note for note in run.only().notes) == heap


def test_parameters_are_read_with_the_types_of_the_name(run: Run) -> None:
    manifest = run.sealed(CUBIN)
    assert [argument.name for argument in manifest.arguments] == ["arg0", "arg1", "arg2", "arg3", "arg4"]
    assert [argument.signature for argument in manifest.arguments] == [
        "float*", "float const*", "int", "double", "Pair",
    ]  # fmt: skip
    assert [argument.value for argument in manifest.arguments] == [
        schema.TensorValue(view=0),
        schema.PointerValue(address=0xDEAD000, dtype="float32"),
        schema.IntValue(value="-3"),
        schema.FloatValue(value="0x1.8000000000000p+0"),
        schema.OpaqueValue(type_name="Pair", repr="16 bytes: " + "01" * 16),
    ]
    [view] = manifest.views
    assert (view.name, view.region, view.offset, view.dtype) == ("arg0", 0, 256, "float32")
    assert (view.shape, view.strides) == (((BYTES - 256) // 4,), (1,))


def values(
    types: str, raw: bytes, layout: list[list[int]], regions: list[dict[str, Any]] | None = None
) -> list[Any]:
    payload = native_payload(0, parameters={"layout": layout, "bytes": raw.hex()})
    payload["kernel"] = {"name": "k", "qualified_name": f"k({types})" if types else "k", "mangled": "k"}
    if regions is not None:
        payload["regions"] = regions
    arguments, _ = native_arguments.describe(payloads.convert(payload, payloads.LaunchRecord, "launch"))
    return [argument.value for argument in arguments]


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        ("bool", "01", schema.BoolValue(value=True)),
        ("unsigned char", "ff", schema.IntValue(value="255")),
        ("signed char", "ff", schema.IntValue(value="-1")),
        ("unsigned long long", "ff" * 8, schema.IntValue(value=str(2**64 - 1))),
        ("float", "0000c07f", schema.FloatValue(value="nan")),
        ("float", "000080ff", schema.FloatValue(value="-inf")),
        ("__half", "003e", schema.FloatValue(value="0x1.8000000000000p+0")),
        ("__nv_bfloat16", "c03f", schema.FloatValue(value="0x1.8000000000000p+0")),
        ("char*", "00" * 8, schema.PointerValue(address=0, dtype="int8")),
        ("void*", "0010000000000000", schema.PointerValue(address=4096, dtype="void")),
        ("ns::Node<int>*", "0010000000000000", schema.PointerValue(address=4096, dtype="ns::Node<int>")),
        ("float*", "ff" * 8, schema.IntValue(value=str(2**64 - 1))),
        ("int", "0000", schema.OpaqueValue(type_name="int", repr="2 bytes: 0000")),
        (
            "dim3",
            "010000000200000003000000",
            schema.OpaqueValue(type_name="dim3", repr="12 bytes: 010000000200000003000000"),
        ),
        ("float const* __restrict__", "00" * 8, schema.PointerValue(address=0, dtype="float32")),
    ],
)
def test_values_by_type(type_: str, raw: str, value: Any) -> None:
    data = bytes.fromhex(raw)
    assert values(type_, data, [[0, len(data)]]) == [value]


def test_without_types_the_bits_are_shown() -> None:
    raw = (BASE + 8).to_bytes(8, "little") + (7).to_bytes(8, "little") + b"\x05\0\0\0" + b"\x01\x02\x03"
    assert values("", raw, [[0, 8], [8, 8], [16, 4], [20, 3]]) == [
        schema.PointerValue(address=BASE + 8, dtype="unknown"),
        schema.IntValue(value="7"),
        schema.IntValue(value="5"),
        schema.OpaqueValue(type_name="unknown", repr="3 bytes: 010203"),
    ]


def test_types_that_do_not_fit_the_layout_are_not_believed() -> None:
    """A lambda's operator, a C name with parentheses: the driver knows how many there are."""
    assert values("int, int", b"\x01\0\0\0", [[0, 4]]) == [schema.IntValue(value="1")]


def test_a_layout_that_the_driver_did_not_give_comes_from_the_cubin(run: Run) -> None:
    manifest = run.sealed(CUBIN, parameters={"layout": None, "bytes": PARAMETERS.hex()})
    assert manifest.launch.parameters is not None
    assert manifest.launch.parameters.layout == tuple(map(tuple, LAYOUT))
    assert len(manifest.arguments) == 5


def test_a_layout_in_the_cubin_that_does_not_fit_costs_nothing_else(run: Run) -> None:
    parameters = run.sealed(
        cubin(90, {MANGLED: [(0, 8), (4096, 8)]}), parameters={"layout": None, "bytes": "00" * 48}
    ).launch.parameters
    assert parameters is not None and parameters.layout is None


def test_a_source_that_could_not_be_looked_for_costs_no_launch(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(request: Any) -> languages.FoundSource:
        raise RecursionError("too deep")

    monkeypatch.setattr(languages, "find", find)
    manifest = run.sealed(CUBIN)
    assert manifest.source is None
    assert "the source could not be looked for: too deep" in manifest.notes


@pytest.mark.parametrize("layout", [[[0, 49]], [[0, 8], [4, 8]], [[40, 8], [0, 8]]])
def test_a_layout_outside_the_buffer_is_refused(run: Run, layout: list[list[int]]) -> None:
    run.seal(CUBIN, parameters={"layout": layout, "bytes": PARAMETERS.hex()})
    [line] = run.collector.failed
    assert "parameter" in line and list(run.output.iterdir()) == []


def test_a_name_of_many_kilobytes_makes_a_short_folder(run: Run) -> None:
    name = f"void {'a' * 300}<{'std::array<int, 4>, ' * 3000}int>(float*)"
    manifest = run.sealed(
        CUBIN, kernel={"name": name, "qualified_name": name, "mangled": "_Z" + "x" * 100_000}
    )
    assert manifest.kernel.name == "a" * 80 and manifest.kernel.qualified_name == name


# --- images ----------------------------------------------------------------------------------------


def test_of_a_fatbin_comes_all_that_serves(run: Run) -> None:
    image = fatbin(entry(PTX_TEXT, 80, kind=1, packing="zstd"), entry(cubin(80), 80), entry(CUBIN, 90))
    manifest = run.sealed(
        image, image={"file": "code/fatbin-1", "kind": "fatbin", "origin": "", "mapped_from": "/app"}
    )
    with Reproducer.open(run.collector.sealed[0].path) as reproducer:
        assert reproducer.code("fatbin") == image
        assert reproducer.code("cubin") == CUBIN and reproducer.code("ptx") == PTX_TEXT
    assert manifest.compiled["image_mapped_from"] == schema.StrValue(value="/app")


def test_of_a_library_only_what_this_device_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    image = fatbin(entry(cubin(80), 80), entry(CUBIN, 90))
    monkeypatch.setattr("kerncap.capture.native_seal.MAX_FATBIN_STORED", len(image) - 1)
    assert MAX_FATBIN_STORED == 64 << 20
    manifest = run.sealed(image, image={"file": "code/fatbin-1", "kind": "fatbin"})
    assert [code.stage for code in manifest.code] == ["cubin"]
    assert any("only what this device runs" in note for note in manifest.notes)


@pytest.mark.parametrize(
    ("image", "record", "note"),
    [
        (None, None, "did not see it being loaded"),
        (None, {"file": "code/elf-1", "kind": "elf"}, "No such file"),
        (b"nonsense", {"file": "code/x-1", "kind": "unknown"}, "could not be parsed"),
    ],
)
def test_an_image_that_is_not_there_costs_the_image_alone(
    run: Run, image: bytes | None, record: dict[str, Any] | None, note: str
) -> None:
    assert any(note in text for text in run.sealed(image, image=record).notes)


def test_the_source_is_asked_for_with_all_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def find(request: Any) -> languages.FoundSource:
        asked.append(request)
        file = languages.FoundFile("scale.cu", "/src/scale.cu", b"__global__ void scale() {}\n")
        return languages.FoundSource(
            entry="scale",
            files=(file,),
            file="scale.cu",
            kernel_file="/src/scale.cu",
            kernel_line=3,
            notes=("by -g",),
        )

    monkeypatch.setattr(languages, "find", find)
    session = bare_session(tmp_path / "session")
    output = tmp_path / "out"
    output.mkdir()
    process = RecordedProcess(session.folder, shim="cuda")
    (process.folder / "program-3.json").write_text("{}")
    process.native(0, CUBIN, program="program-3.json")
    process.complete(0)
    process.end()
    one = Sealer(session, output, ["./app"], {}, source_dirs=[tmp_path])
    collector = Collector(session.folder, one)
    collector.finish(TargetResult(0, 4242))
    [request] = asked
    assert (request.mangled, request.demangled, request.cubin) == (MANGLED, DEMANGLED, CUBIN)
    assert (request.kind, request.arch, request.executable) == ("elf", "sm_90", "/app")
    assert request.source_dirs == (tmp_path,) and request.program == process.folder / "program-3.json"
    with Reproducer.open(collector.sealed[0].path) as reproducer:
        manifest = reproducer.manifest
        assert (manifest.kernel.file, manifest.kernel.line) == ("/src/scale.cu", 3)
        assert manifest.source is not None and manifest.source.language == "cuda"
        assert reproducer.source_text() == "__global__ void scale() {}\n"
        assert "by -g" in manifest.notes


# --- memory ----------------------------------------------------------------------------------------


def test_stripes_are_read_as_one(run: Run) -> None:
    unit = schema.CHUNK_BYTES
    before = bytes(position // 1000 % 251 for position in range(5 * unit + 12_288))
    after = before[:unit] + bytes(reversed(before[unit : 2 * unit])) + before[2 * unit :]
    process = run.process()
    regions = [
        {"base": BASE, "size": 8192, "kind": "device", "device": 0},
        {"base": BASE + (1 << 30), "size": 5 * unit, "kind": "device", "device": 0},
    ]
    for number in range(3):
        rows = range(number, -(-len(before) // unit), 3)
        name = "0.pre" if number == 0 else f"0.pre.{number}"
        (process.folder / name).write_bytes(b"".join(before[row * unit : (row + 1) * unit] for row in rows))
    changed = [2, 4]
    for place, chunk in enumerate(changed):
        start = 8192 + chunk * unit
        name = "0.post" if place == 0 else f"0.post.{place}"
        (process.folder / name).write_bytes(after[start : start + unit])
    process.say(
        RecordKind.LAUNCH,
        native_payload(
            0,
            regions=regions,
            pre={"file": "0.pre", "stripes": 3, "stripe_bytes": unit},
            pre_offsets=[0, 8192],
            image=None,
        ),
    )
    process.say(
        RecordKind.COMPLETE,
        {
            "launch": 0,
            "status": "complete",
            "post": {"file": "0.post", "stripes": 2, "stripe_bytes": unit},
            "chunks": [[1, chunk] for chunk in changed],
        },
    )
    run.finish(process)
    [sealed] = run.collector.sealed
    with Reproducer.open(sealed.path) as reproducer:
        reproducer.verify()
        assert reproducer.read("pre", 0, 0, 8192) == before[:8192]
        assert reproducer.read("pre", 1, 0, 5 * unit) == before[8192 : 8192 + 5 * unit]
        for chunk in changed:
            start = 8192 + chunk * unit
            assert reproducer.read("post", 1, chunk * unit, unit) == after[start : start + unit]
    assert not list(process.folder.glob("0.pre*")) and not list(process.folder.glob("0.post*"))


@pytest.mark.parametrize(
    "state", [{"file": "0.pre", "stripes": 2}, {"file": "0.pre", "stripes": 65, "stripe_bytes": 1 << 20}]
)
def test_stripes_that_say_too_little_or_too_much_are_refused(run: Run, state: dict[str, Any]) -> None:
    process = run.process()
    process.native(0, CUBIN, pre=state)
    (process.folder / "0.pre").write_bytes(pre_bytes(0))
    (process.folder / "0.pre.1").write_bytes(b"")
    process.complete(0)
    run.finish(process)
    assert run.collector.sealed == [] and list(run.output.iterdir()) == []
    [process_log] = run.collector.processes.values()
    assert len(run.collector.failed) + len(process_log.complaints) >= 1


def test_a_launch_cut_short_under_on_fault_is_its_fault(run: Run) -> None:
    process = run.process()
    process.native(0, CUBIN, condition="on_fault")
    run.finish(process, target=TargetResult(139, 4242, signal=11))
    manifest = run.only()
    assert manifest.oracle.kind == "fault" and "SIGSEGV" in (manifest.oracle.error or "")


# --- the Triton hook over the shim -------------------------------------------------------------------

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


# --- what the shim says besides ------------------------------------------------------------------------


def test_the_last_launches_and_progress_are_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        said.set()

    monkeypatch.setattr("kerncap.log.line", line)
    process = run.process()
    run.collector.follow()
    last = [{"kernel": "add", "grid": [1, 1, 1], "block": [32, 1, 1], "stream": "0x0", "index": 9}]
    process.say(RecordKind.LAST, {"launches": last, "error": "an illegal memory access"})
    process.say(RecordKind.LAST, {"launches": [], "error": "later"})
    process.say(RecordKind.PROGRESS, {"launch": 0, "kernel": "add", "done": 1 << 30, "total": 4 << 30})
    assert said.wait(60)
    run.finish(process)
    [log] = run.collector.processes.values()
    assert log.last is not None and log.last.error == "an illegal memory access"
    assert lines == ["add (launch 0): 1.0 GiB of 4.0 GiB copied"]


def test_progress_of_a_session_left_behind_is_not_said_again(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    process = run.process()
    process.say(RecordKind.PROGRESS, {"launch": 0, "kernel": "add", "done": 1, "total": 2})
    run.finish(process)
    assert "copied" not in capsys.readouterr().err
