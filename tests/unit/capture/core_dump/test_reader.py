"""Core dumps of a GPU: what is read out of one, and that a damaged one ends in one line."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from kerncap.api import from_core
from kerncap.capture.core_dump import access
from kerncap.cli import main
from kerncap.errors import FormatError, UsageError
from kerncap.replay.candidates import disassemble
from kerncap.report.from_core_text import render
from tests.unit.capture.built_images import entry, fatbin
from tests.unit.capture.core_dump import built_dumps as built
from tests.unit.schemas.strict import check


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(data: bytes | built.Built, **options: Any) -> dict[str, Any]:
        path = tmp_path / "core.nvcudmp"
        path.write_bytes(data if isinstance(data, bytes) else data.elf())
        document = from_core(path, **options)
        check("from-core", document)
        assert render(document).isprintable() is False  # it has lines
        return document

    return read


def test_the_fault_its_thread_and_its_line(read: Any) -> None:
    document = read(built.dump())
    [fault] = document["faults"]
    assert fault["exception"]["name"] == "WARP_ILLEGAL_ADDRESS"
    assert (fault["thread_count"], fault["blocks"]) == (8, 1)
    place = fault["place"]
    assert (place["kernel"], place["offset"], place["file"], place["line"]) == (
        "_Z5scalePfi", 16, "/src/scale.cu", 9
    )  # fmt: skip
    shown = fault["threads"][0]
    assert (shown["block"], shown["thread"]) == ((1, 0, 0), (3, 0, 0))
    assert shown["access"] == {"space": "global", "address": 0x10000000000, "in_dump": False}
    assert fault["first_thread"]["registers"][:6] == (100, 101, 102, 103, 0, 0x100)
    assert len(fault["first_thread"]["registers"]) == 24
    [kernel] = document["kernels"]
    assert (kernel["grid"], kernel["block"], kernel["resident_threads"]) == ((4, 1, 1), (32, 2, 1), 128)
    assert [each["bytes"] for each in kernel["parameters"]] == ["00000000207f0000", "00010000"]
    assert sum(each["thread_count"] for each in document["elsewhere"]) == 128 - 8
    assert {each["kind"] for each in document["memory"]} == {"global", "shared"}
    assert document["driver"]["version"] == "580.95"
    assert document["command"] == "kerncap capture --on-fault -k '^scale$' -- CMD"


def test_rows_of_an_older_driver_end_earlier(read: Any) -> None:
    document = read(built.dump(shorter=1))
    [fault] = document["faults"]
    assert fault["exception"]["name"] == "WARP_ILLEGAL_ADDRESS" and fault["place"]["line"] == 9
    assert document["driver"] is None and document["kernels"][0]["cluster"] is None


def test_rows_of_a_newer_driver_go_on(read: Any) -> None:
    newer, now = read(built.dump(longer=24)), read(built.dump())
    assert newer == now


def test_more_sections_than_a_header_can_count(read: Any) -> None:
    assert read(built.dump().elf(most=10)) == read(built.dump())


def test_what_flags_left_out_is_said(read: Any) -> None:
    document = read(built.dump(flags=1 | 2 | 4))
    [fault] = document["faults"]
    assert fault["place"]["line"] == 9, "the image as it was loaded has the lines, too"
    assert document["memory"] == []
    assert document["driver"]["left_out"] == (
        "images as they were before they were loaded", "global memory", "shared memory"
    )  # fmt: skip
    assert all(each["access"]["in_dump"] is None for each in fault["threads"])


def test_a_trap_is_that_of_the_active_threads(read: Any) -> None:
    [fault] = read(built.dump(exception=0, trapped=True))["faults"]
    assert (fault["exception"]["name"], fault["exception"]["code"], fault["thread_count"]) == ("TRAP", 0, 8)


def test_threads_that_have_no_exception(read: Any) -> None:
    """As in a dump of a program that hangs."""
    document = read(built.dump(exception=0))
    assert document["faults"] == [] and any(
        "no thread has an exception" in note for note in document["notes"]
    )
    assert sum(each["thread_count"] for each in document["elsewhere"]) == 128
    assert "scale" in document["command"]


def test_an_exception_whose_warps_have_ended(read: Any) -> None:
    """Only the SM has it then."""
    document = read(built.dump(warps=0))
    [fault] = document["faults"]
    assert fault["exception"]["name"] == "WARP_ILLEGAL_ADDRESS" and fault["place"]["line"] == 9
    assert fault["first_thread"] is None and fault["threads"] == []


def test_text_of_a_stranger_is_escaped(read: Any, tmp_path: Path) -> None:
    dump = built.dump().elf().replace(b"NVIDIA H100", b"\x1b[31mH10\n\r ")
    text = render(read(dump))
    assert "\x1b" not in text and "\\x1b[31mH10\\n\\r" in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: b"", "not a core dump"),
        (lambda data: data[:40], "ends within its header"),
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: data[:-100], "cut off"),
        (lambda data: b"\x1f\x8b" + data[2:], "gunzip"),
        (lambda data: b"#!/bin/sh\n" + data, "not a core dump"),
        (lambda data: data[:18] + struct.pack("<H", 21) + data[20:], "core dump of a process"),
        (lambda data: data[:16] + struct.pack("<H", 2) + data[18:], "an ELF file"),
        (lambda data: data[:60] + b"\0\0" + data[62:], "0 section headers"),
        (lambda data: data[:40] + bytes(8) + data[48:], "section headers"),
    ],
)  # fmt: skip
def test_what_is_no_whole_core_dump(read: Any, change: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=problem) as raised:
        read(change(built.dump().elf()))
    assert "\n" not in str(raised.value)


def _field(data: bytes, section: int, at: int, value: bytes) -> bytes:
    start = struct.unpack_from("<Q", data, 40)[0] + 64 * section + at
    return data[:start] + value + data[start + len(value) :]


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        (24, struct.pack("<Q", (1 << 64) - 8), "cut off"),  # sh_offset
        (32, struct.pack("<Q", (1 << 64) - 8), "cut off"),  # sh_size
        (32, struct.pack("<Q", 7), "for rows of"),
        (40, struct.pack("<I", 1 << 30), "no such row"),  # sh_link
        (40, struct.pack("<I", 2), "no such row"),  # itself
        (44, struct.pack("<I", 9), "no such row"),  # sh_info
        (56, struct.pack("<Q", 0), "for rows of"),  # sh_entsize
        (56, struct.pack("<Q", 1), "for rows of"),
        (56, struct.pack("<Q", (1 << 64) - 1), "for rows of"),
    ],
)  # fmt: skip
def test_a_table_that_leads_astray(read: Any, at: int, value: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read(_field(built.dump().elf(), 2, at, value))


def test_two_sections_of_one_row(read: Any) -> None:
    dump = built.dump()
    kind, content, link, info, address, stride = dump.sections[2][1:7]
    dump.add(kind, content, link, info, address, stride)
    with pytest.raises(FormatError, match="no such row free"):
        read(dump)


def test_too_many_lanes(read: Any) -> None:
    dump = built.dump()
    at = next(n for n, each in enumerate(dump.sections) if each[1] == built.LANES)
    name, kind, content, *rest = dump.sections[at]
    dump.sections[at] = (name, kind, content * 2, *rest)  # type: ignore[assignment]
    with pytest.raises(FormatError, match="a warp of 64 lanes"):
        read(dump)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "core.nvcudmp"
    path.write_bytes(built.dump().elf())
    assert main(["from-core", str(path)]) == 0
    page = capsys.readouterr().out
    assert "WARP_ILLEGAL_ADDRESS" in page and "/src/scale.cu:9" in page
    assert "block (1, 0, 0) thread (3, 0, 0): global address 0x10000000000, not in the dump" in page
    path.write_bytes(path.read_bytes()[:3000])
    assert main(["from-core", "--json", str(path)]) == 3
    done = capsys.readouterr()
    assert done.out == "" and re.fullmatch(r"kerncap: \S+: byte \d+: .*; the dump was cut off\n", done.err)


def test_an_instruction_of_a_disassembler() -> None:
    text = (
        ".text._Z1av:\n        /*0000*/                   MOV R1, c[0x0][0x28] ;\n"
        ".text._Z1bv:\n        /*0000*/                   NOP ;\n"
        "        /*0010*/              @P0  LDG.E R2, desc[UR4][R2.64] ;   /* 0x1 */\n"
        "                                                                   /* 0x2 */\n"
    )
    assert disassemble.instruction(text, "_Z1bv", 16) == "@P0 LDG.E R2, desc[UR4][R2.64]"
    assert disassemble.instruction(text, "_Z1av", 16) is None
    assert disassemble.instruction(text, "_Z1cv", 0) is None
    other = "\t\tFunction : _Z1bv\n        /*0010*/   EXIT ;\n"
    assert disassemble.instruction(other, "_Z1bv", 16) == "EXIT"


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder; give"):
        from_core(tmp_path)
    with pytest.raises(UsageError, match="missing"):
        from_core(tmp_path / "missing")
    whole = tmp_path / "core.nvcudmp"
    whole.write_bytes(built.dump().elf())
    with pytest.raises(UsageError, match="other: can't be read"):
        from_core(whole, tmp_path / "other")


def test_a_damaged_image_is_a_note(read: Any) -> None:
    dump = built.dump(flags=1)
    at = next(n for n, each in enumerate(dump.sections) if each[1] == built.LOADED)
    name, kind, content, *rest = dump.sections[at]
    dump.sections[at] = (name, kind, content[:200], *rest)  # type: ignore[assignment]
    document = read(dump)
    assert any("an image of the dump can't be read" in note for note in document["notes"])
    assert document["faults"][0]["place"] is None and document["kernels"][0]["name"] is None
    assert "no image in the dump has" in render(document)


def test_lines_of_a_program_that_was_built_with_them(read: Any, tmp_path: Path) -> None:
    program, other = tmp_path / "program", tmp_path / "other"
    for path, kernel in ((program, "_Z5scalePfi"), (other, "_Z5otherPfi")):
        elf = built.Built()
        elf.add(1, fatbin(entry(built.image(0, kernel=kernel), 90)), name=".nv_fatbin")
        path.write_bytes(elf.elf(3))
    dump = built.dump(lines=False)
    assert read(dump)["faults"][0]["place"]["line"] is None
    assert "compile with -lineinfo" in render(read(dump))
    assert read(dump, program=program)["faults"][0]["place"]["line"] == 9
    document = read(dump, program=other)
    assert document["faults"][0]["place"]["line"] is None
    assert any("no code for sm_90 of the same size has _Z5scalePfi" in note for note in document["notes"])


def mutated(data: bytes, seed: int) -> bytes:
    """Some bytes of a dump changed, cut out or doubled; its headers more often than the rest."""
    chance = random.Random(seed)
    found = bytearray(data)
    headers = struct.unpack_from("<Q", data, 40)[0]
    for _ in range(chance.randint(1, 6)):
        start, end = chance.choice(((0, 64), (headers, len(found)), (0, len(found))))
        at = chance.randrange(start, max(start + 1, min(end, len(found))))
        width = chance.choice((1, 2, 4, 8))
        value = chance.choice((0, 1, 0xFF, 1 << 31, (1 << 64) - 1, chance.getrandbits(64)))
        found[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(found[: chance.randrange(len(found))] if chance.random() < 0.1 else found)


def test_a_damaged_dump_ends_in_one_line(read: Any) -> None:
    whole, problems = built.dump().elf(), set()
    for seed in range(300):
        try:
            read(mutated(whole, seed))
        except FormatError as error:
            assert "\n" not in str(error)
            problems.add(re.sub(r"[\d,]+|0x\w+", "#", error.message)[:40])
    assert len(problems) >= 8, problems


@pytest.mark.parametrize(
    ("arch", "low", "high", "found"),
    [  # as nvdisasm shows them: LDG.E R11, desc[UR4][R10.64+0xc]; STG.E desc[UR4][R2.64], R5; [R6.64+0x190]
        (90, 0x00000C040A0B7981, 0x000EEA000C1E1900, ("global", 0x0B0000000A + 0xC)),
        (90, 0x0000000502007986, 0x000FE2000C101904, ("global", 0x0300000002)),
        (80, 0x0001900C02007986, 0x000FE8000C101904, ("global", 0x0300000002 + 0x190)),
        (90, 0xFFFFF40402007981, 0x000EA2000C1E1900, ("global", 0x0300000002 - 12)),
        (90, 0x0000140208FF73A9, 0x0001E800001EE103, ("global", 0x0900000008 + 0x14)),  # ATOMG.E.CAS
        (90, 0x00001C0004047984, 0x000E220000000800, ("shared", 4 + 0x1C)),  # LDS R4, [R4+0x1c]
        (90, 0x00001C05FF0A7984, 0x000E280008000800, None),  # LDS R10, [UR5+0x1c]
        (80, 0x00001C000A0A7984, 0x001E280000004800, None),  # LDS R10, [R10.X4+0x1c]
        (90, 0x00000C121D007387, 0x000FE80000100C00, ("local", 0x1D + 0xC)),  # STL [R29+0xc], R18
        (90, 0x0000000000007918, 0x000FC00000000000, None),  # NOP
        (75, 0x00000C0004057381, 0x000EA200001EE900, None),
    ],
)  # fmt: skip
def test_the_address_of_an_access(arch: int, low: int, high: int, found: Any) -> None:
    assert access.address(struct.pack("<QQ", low, high), arch, range(32)) == found


@pytest.mark.parametrize(
    ("low", "after", "known"),
    [  # LDG.E R6, [R4.64] and then BSYNC B0, ULDC.64 UR6, FADD R5, …; LDG.E R5, [R4.64]
        (0x0000000404067981, (0x0000000000007941, 0x0000840000067AB9), True),
        (0x0000000404067981, (0x0000000000007941, 0x0000000606057221), False),
        (0x0000000404057981, (), True),
        (0x0000000404057981, (0x0000000000007941,), False),
    ],
)
def test_an_address_whose_registers_were_written_is_not_known(
    low: int, after: tuple[int, ...], known: bool
) -> None:
    """The last instruction is where the thread is: it did not run."""
    executed = b"".join(struct.pack("<QQ", each, 0x0C1E1900) for each in (low, *after, *after[:1]))
    found = access.address(executed, 90, range(32))
    assert found == (("global", 0x0500000004) if known else None)
