"""What compiled code says of clocks, arrivals, the heap and printing."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kerncap.replay import side_inputs
from kerncap.replay.side_inputs import SideInputs
from tests.unit.capture.built_images import cubin

_HEAD = """\
.version 8.0
.target sm_80
.address_size 64
{extern}
"""
_ENTRY = """\
.visible .entry {name}(.param .u64 p)
{{
  .reg .b64 %rd<9>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
  {body}
  ret;
}}
"""
_KEPT = " st.volatile.global.u32 [%rd1+16], %r1;"
_MALLOC = ".extern .func (.param .b64 r) malloc (.param .b64 s);"
_VPRINTF = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
_CASES: dict[str, tuple[str, str, SideInputs]] = {
    "nothing": (
        "",
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid; add.u32 %r1, %r1, %r2;" + _KEPT,
        SideInputs(),
    ),
    "clock64": ("", "mov.u64 %rd2, %clock64; st.global.u64 [%rd1], %rd2;", SideInputs(("clock",))),
    "clock": ("", "mov.u32 %r1, %clock;" + _KEPT, SideInputs(("clock",))),
    "timer": ("", "mov.u64 %rd2, %globaltimer; st.global.u64 [%rd1], %rd2;", SideInputs(("globaltimer",))),
    "smid": ("", "mov.u32 %r1, %smid;" + _KEPT, SideInputs(("smid",))),
    "kept": ("", "atom.global.add.u32 %r1, [%rd1], 1;" + _KEPT, SideInputs(order=True)),
    "cas": ("", "atom.global.cas.b32 %r1, [%rd1], 0, 1;" + _KEPT, SideInputs(order=True)),
    "dropped": ("", "atom.global.add.u32 %r1, [%rd1], 1;", SideInputs()),
    "red": ("", "red.global.add.u32 [%rd1], 1;", SideInputs()),
    "heap": (
        _MALLOC,
        "{ .param .b64 s; .param .b64 r; st.param.b64 [s], 16; call.uni (r), malloc, (s);"
        " ld.param.b64 %rd2, [r]; st.global.u64 [%rd1], %rd2; }",
        SideInputs(heap=True),
    ),
    "prints": (
        _VPRINTF,
        "{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd1; st.param.b64 [b], %rd1;"
        " call.uni (r), vprintf, (a, b); }",
        SideInputs(prints=True),
    ),
}


def _text(case: str, name: str = "kernel", beside: str = "") -> str:
    extern, body, _ = _CASES[case]
    other = _ENTRY.format(name="beside", body=_CASES[beside][1]) if beside else ""
    return _HEAD.format(extern=extern) + other + _ENTRY.format(name=name, body=body)


@pytest.mark.parametrize("case", _CASES)
def test_ptx_says_it(case: str) -> None:
    assert side_inputs._of_ptx(_text(case).encode(), "kernel") == _CASES[case][2]


def test_what_another_kernel_of_the_module_reads_does_not_count() -> None:
    text = _text("kept", beside="clock").encode()
    assert side_inputs._of_ptx(text, "kernel") == SideInputs(order=True)
    assert side_inputs._of_ptx(text, "beside") == SideInputs(("clock",))


@pytest.mark.parametrize("text", ["/*", "call ", "atom.add %r1, ", ".entry k ", "// \n"])
def test_a_strangers_text_is_read_in_one_pass(text: str) -> None:
    """Many times what a pattern begins with, and never its end: not looked through each time again."""
    side_inputs._of_ptx(text.encode() * 200_000, "kernel")


def _ptxas() -> Path | None:
    triton = importlib.util.find_spec("triton")
    found = Path(str(triton.origin)).parent / "backends/nvidia/bin/ptxas" if triton else None
    return found if found is not None and found.is_file() else None


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_machine_code_says_it(tmp_path: Path, arch: str) -> None:
    ptxas = _ptxas()
    if ptxas is None:
        pytest.skip("needs ptxas, as Triton brings it along")
    found = {}
    for case, (_, _, expected) in _CASES.items():
        source, image = tmp_path / f"{case}.ptx", tmp_path / f"{case}.cubin"
        source.write_text(_text(case, beside="" if expected.clocks else "smid").replace("sm_80", arch))
        subprocess.run([str(ptxas), f"-arch={arch}", str(source), "-o", str(image)], check=True)
        found[case] = side_inputs._of_image(image.read_bytes(), "kernel")
    assert found == {case: expected for case, (_, _, expected) in _CASES.items()}


def test_code_that_takes_the_address_of_a_function_says_it() -> None:
    image = cubin(calls="", functions=["other"])
    assert side_inputs._of_image(image, "_Z3addPf") == SideInputs(addresses=True)
    image = cubin(calls="", functions=["other"], variables=[("table", ".nv.constant3")])
    assert side_inputs._of_image(image, "_Z3addPf") == SideInputs(addresses=True)
    assert side_inputs._of_image(cubin(calls=""), "_Z3addPf") == SideInputs()


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"text"])
def test_damaged_images_say_nothing(data: bytes) -> None:
    assert side_inputs._of_image(data, "kernel") in (None, SideInputs())


@pytest.mark.parametrize(
    "word, expected",
    [(0xC0900040, ("s_memtime",)), (0xC0940040, ("s_memrealtime",)), (0xB8800000 | 0xF804, ("hw_id",)),
     (0xB8800000 | 0xF801, ()), (0xBF8C0000, ())],
)  # fmt: skip
def test_code_of_amd_says_it(word: int, expected: tuple[str, ...]) -> None:
    from kerncap.format.elf import FUNCTION, Section, Symbol

    code = memoryview(struct.pack("<4I", 0xBF800000, word, 0, 0xBF810000))

    class Image:
        """As `Elf` gives it: one function in one section."""

        sections = (Section(0, ".text", 1, 0, len(code), 0, 0, 0),)

        def symbols(self) -> Any:
            yield Symbol(1, "kernel", FUNCTION, 0, 0, len(code))

        def content(self, section: Section) -> memoryview:
            return code

    found = side_inputs._of_code_object(Image(), "kernel.kd", ())  # type: ignore[arg-type]
    assert found.clocks == expected


@pytest.mark.parametrize("kind, addend, held", [(13, 0x1010, True), (13, 0x2010, False), (3, 0x1010, False)])
def test_a_table_of_functions_of_amd_holds_addresses(kind: int, addend: int, held: bool) -> None:
    from kerncap.format.elf import RELA, Relocation, Section

    class Image:
        """A variable whose first word is made by one relocation."""

        sections = (
            Section(0, ".text", 1, 0, 64, 0, 0, 0, address=0x1000),
            Section(1, ".rela.dyn", RELA, 0, 24, 0, 0, 24),
        )

        def relocations(self, section: Section) -> Any:
            assert section.type == RELA
            yield Relocation(0x3000, kind, 0, addend)

    assert side_inputs._holds_code_addresses(Image()) is held  # type: ignore[arg-type]
