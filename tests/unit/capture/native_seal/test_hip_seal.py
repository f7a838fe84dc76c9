"""Launches on an AMD GPU become reproducers: the kernarg segment, hidden arguments, the code object."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.inspect import inspect
from kerncap.capture import languages
from kerncap.capture.answers import Answers
from kerncap.format import Reproducer, schema
from kerncap.report.inspect_text import render
from tests.golden.contents import HIDDEN
from tests.session_options import capture_options
from tests.unit.capture.native_seal.session import Run, values
from tests.unit.capture.recorded import BASE, BYTES, DEMANGLED, LAYOUT, MANGLED, PARAMETERS, post_bytes
from tests.unit.capture.test_code_objects import BUNDLE, code_object, kernel, with_section
from tests.unit.format.damage import GOLDEN_HIP

COMPILED = (GOLDEN_HIP / "code" / "kernel.hsaco").read_bytes()
KERNARG = (PARAMETERS + HIDDEN).ljust(304, b"\0")


def hip(**changes: Any) -> dict[str, Any]:
    """What the HIP shim writes otherwise than the CUDA one."""
    return {
        "device": {
            "kind": "hip", "name": "AMD Instinct MI250X", "arch": "gfx90a", "ordinal": 0,
            "driver": "ROCr 1.15, gfx90a:xnack-",
        },
        "dispatch": {"work_items": [1000, 1, 1], "group_bytes": 512, "private_bytes": 0, "dimensions": 1},
        "shared_bytes": 512,
        "launch_attributes": [],
        "route": "hsa queue 1",
        "parameters": {"layout": None, "bytes": KERNARG.hex()},
        **changes,
    }  # fmt: skip


def sealed(run: Run, code: bytes | None = COMPILED, **changes: Any) -> schema.Manifest:
    process = run.process(shim="hip")
    process.native(0, code, **hip(**changes))
    process.complete(0, signature={}, divisibility={})
    run.finish(process)
    return run.only()


# --- the manifest ----------------------------------------------------------------------------------


def test_a_launch_is_sealed_with_everything(run: Run) -> None:
    manifest = sealed(run)
    assert (manifest.kernel.language, manifest.kernel.name) == ("hip", "scale")
    assert (manifest.kernel.qualified_name, manifest.kernel.mangled) == (DEMANGLED, MANGLED)
    launch = manifest.launch
    assert launch.dispatch == schema.Dispatch(work_items=(1000, 1, 1), group_bytes=512, dimensions=1)
    assert (launch.mode, launch.grid, launch.block) == ("native", (4, 1, 1), (256, 1, 1))
    assert launch.parameters is not None
    assert bytes.fromhex(launch.parameters.bytes) == KERNARG
    assert launch.parameters.layout == tuple(map(tuple, LAYOUT))
    assert [code.stage for code in manifest.code] == ["hsaco"]
    assert manifest.compiled["vgprs"] == schema.IntValue(value="7")
    assert manifest.compiled["kernarg_bytes"] == schema.IntValue(value="304")
    assert manifest.compiled["image_kind"] == schema.StrValue(value="elf")
    [only] = run.collector.sealed
    with Reproducer.open(only.path) as reproducer:
        assert reproducer.code("hsaco") == COMPILED
        assert reproducer.read("post", 0, 0, BYTES) == post_bytes(0)


def test_arguments_leave_the_hidden_ones_out(run: Run) -> None:
    manifest = sealed(run)
    assert [(each.name, each.signature) for each in manifest.arguments] == [
        ("arg0", "float*"), ("arg1", "float const*"), ("arg2", "int"), ("arg3", "double"), ("arg4", "Pair"),
    ]  # fmt: skip
    assert manifest.arguments[2].value == schema.IntValue(value="-3")
    [view] = manifest.views
    assert (view.name, view.offset, view.dtype) == ("arg0", 256, "float32")


def test_names_and_types_of_the_metadata_serve_where_the_name_has_none(run: Run) -> None:
    raw = struct.pack("<Qi", BASE + 8, 7).ljust(24, b"\0")
    manifest = sealed(
        run,
        code_object(kernel()),
        kernel={"name": "k", "qualified_name": "k", "mangled": "k"},
        parameters={"layout": None, "bytes": raw.hex()},
    )
    assert [(each.name, each.signature, each.value) for each in manifest.arguments] == [
        ("x", "b64", schema.PointerValue(address=BASE + 8, dtype="unknown")),
        ("n", "int", schema.IntValue(value="7")),
    ]


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        ("_Float16", "003e", schema.FloatValue(value="0x1.8000000000000p+0")),
        ("hip_bfloat16", "c03f", schema.FloatValue(value="0x1.8000000000000p+0")),
        ("__hip_bfloat16", "c03f", schema.FloatValue(value="0x1.8000000000000p+0")),
        (
            "HIP_vector_type<float, 2u>",
            "0000c03f000000c0",
            schema.SequenceValue(
                items=(
                    schema.FloatValue(value="0x1.8000000000000p+0"),
                    schema.FloatValue(value="-0x1.0000000000000p+1"),
                )
            ),
        ),
        (
            "HIP_vector_type<Odd, 2u>",
            "0000",
            schema.OpaqueValue(type_name="HIP_vector_type<Odd, 2u>", repr="2 bytes: 0000"),
        ),
        (
            "HIP_vector_type<float, 4u>*",
            "0010000000000000",
            schema.PointerValue(address=4096, dtype="float32"),
        ),
    ],
)  # fmt: skip
def test_hip_types_by_value(type_: str, raw: str, value: schema.Value) -> None:
    assert values(type_, bytes.fromhex(raw), [[0, len(raw) // 2]]) == [value]


# --- code objects that do not fit ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (None, "image is not in here"),
        (COMPILED[:3000], "could not be read: a damaged code object"),
        (code_object(kernel()), "has no kernel of this name"),
    ],
)
def test_an_image_that_tells_nothing_is_a_note(run: Run, code: bytes | None, note: str) -> None:
    manifest = sealed(run, code)
    assert any(note in each for each in manifest.notes), manifest.notes
    assert manifest.arguments == () and manifest.launch.parameters is not None
    assert manifest.launch.parameters.layout is None
    assert [each.stage for each in manifest.code] == ([] if code is None else ["hsaco"])


def test_a_kernarg_segment_that_is_too_short_keeps_its_bytes_alone(run: Run) -> None:
    manifest = sealed(run, parameters={"layout": None, "bytes": "00" * 40})
    assert manifest.launch.parameters == schema.Parameters(bytes="00" * 40, layout=None)


def test_a_dispatch_that_is_not_the_grid_is_refused(run: Run) -> None:
    process = run.process(shim="hip")
    process.native(0, COMPILED, **hip(grid=[5, 1, 1]))
    process.complete(0)
    run.finish(process)
    assert run.collector.sealed == []
    assert any("1000 work-items in workgroups of 256 are not the 5" in text for text in run.collector.failed)


def test_inspect_shows_the_dispatch(run: Run) -> None:
    sealed(run)
    [only] = run.collector.sealed
    text = render(inspect(only.path))
    assert "1000x1x1 work-items, 512 bytes of LDS, 0 of scratch each" in text
    assert "304 bytes, 5 parameters" in text


# --- the shim's question ---------------------------------------------------------------------------


def test_the_answer_has_variables_and_explicit_parameters(tmp_path: Path) -> None:
    code = tmp_path / "12-0" / "code"
    code.mkdir(parents=True)
    (code / "elf-1").write_bytes(COMPILED)
    ask = {"ask": "globals", "process": "12-0", "image": "code/elf-1", "kernel": MANGLED, "arch": "gfx90a"}
    answers = Answers(tmp_path, capture_options())
    assert answers.answer(ask) == {"globals": ["coef"], "statics": [], "parameters": LAYOUT}
    # Another kernel of the same image is another question.
    assert answers.answer({**ask, "kernel": "other"}) == {"globals": ["coef"], "statics": []}
    (code / "elf-2").write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xe0\0" + bytes(80))
    assert answers.answer({**ask, "image": "code/elf-2"}) == {}


@pytest.mark.parametrize("where", ["session", "program", "nowhere"])
def test_whether_the_source_is_known_is_read_in_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    program = tmp_path / "app"
    program.write_bytes(with_section(".hip_fatbin", BUNDLE))
    code = tmp_path / "12-0" / "code"
    code.mkdir(parents=True)
    (code / "elf-1").write_bytes(COMPILED)
    looked: list[bytes | None] = []

    def source_known(request: Any, image: Any = None) -> bool:
        looked.append(image())
        return True

    monkeypatch.setattr(languages, "is_known", source_known)
    facts = {"session": {"file": "code/elf-1"}, "program": {"mapped_from": str(program)}, "nowhere": {}}[
        where
    ]
    question = {"ask": "match", "process": "12-0", "kernel": MANGLED, "image": {"kind": "elf", **facts}}
    assert Answers(tmp_path, capture_options()).answer(question) == {"match": True}
    assert looked == [None if where == "nowhere" else COMPILED]
