"""The manifest of a native launch: parameters by name and layout."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.capture import languages
from kerncap.format import Reproducer, schema
from tests.unit.capture.built_images import cubin
from tests.unit.capture.native_seal.session import CUBIN, Run, values
from tests.unit.capture.recorded import (
    BASE,
    BYTES,
    DEMANGLED,
    LAYOUT,
    MANGLED,
    PARAMETERS,
    post_bytes,
    pre_bytes,
)


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
