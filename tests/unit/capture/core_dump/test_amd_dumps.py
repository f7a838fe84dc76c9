"""Core dumps that ROCr 6.4 and 7.2 and the kernel wrote of faults on the emulated GPU: samples/core_dump."""

from __future__ import annotations

import random
import re
import shutil
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.api import from_core
from kerncap.cli import main
from kerncap.errors import FormatError, UsageError
from kerncap.report.from_core_text import render
from tests.unit.schemas.strict import check

SAMPLE = Path(__file__).parents[4] / "samples" / "core_dump"
HIP = "/tmp/core-sample/fault.hip"
HEADER, SEGMENT = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
NOTE_AT = 12 + 8  # of a note's content


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    with tarfile.open(SAMPLE / "amd.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def copy(dumps: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a dump, with the process's next to it."""

    def copy(name: str) -> Path:
        return gpu_of(Path(shutil.copytree(dumps / name, tmp_path / name)))

    return copy


def gpu_of(folder: Path) -> Path:
    return next(each for each in folder.iterdir() if "gpu" in each.name)


def host_of(gpu: Path) -> Path:
    return next(each for each in gpu.parent.iterdir() if each != gpu)


def read(path: Path, program: Path | None = None, **options: Any) -> dict[str, Any]:
    document = from_core(path, program, **options)
    check("from-core", document)
    assert all(line.isprintable() for line in render(document).split("\n"))
    return document


def line_of(text: str) -> int:
    lines = (SAMPLE / "fault.hip").read_text().split("\n")
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("name", "exception", "kernel", "function", "source", "block", "thread", "count"),
    [
        ("gfx90a-illegal", "WAVE_MEMORY_VIOLATION", "scale", "_Z4pickPKfl", "in[at]", (1, 0, 0), (0, 0, 0),
         64),
        ("gfx942-illegal", "WAVE_MEMORY_VIOLATION", "scale", "_Z4pickPKfl", "in[at]", (1, 0, 0), (0, 0, 0),
         64),
        ("gfx950-illegal", "WAVE_MEMORY_VIOLATION", "scale", "_Z4pickPKfl", "in[at]", (1, 0, 0), (0, 0, 0),
         64),
        ("gfx90a-assert", "WAVE_ABORT", "check", "__assert_fail", None, (3, 0, 0), (44, 0, 0), 20),
        ("gfx942-trap", "WAVE_ABORT", "stop", "_Z4stopPfi", "__builtin_trap", (1, 0, 0), (36, 0, 0), 1),
    ],
)  # fmt: skip
def test_kernel_thread_and_line(
    dumps: Path, name: str, exception: str, kernel: str, function: str, source: str | None,
    block: tuple[int, ...], thread: tuple[int, ...], count: int,
) -> None:  # fmt: skip
    program = dumps / ("fault950" if "950" in name else "fault")
    document = read(gpu_of(dumps / name), program)
    [fault] = document["faults"]
    assert fault["exception"]["name"] == exception
    assert document["kernels"][fault["kernel"]]["name"] == kernel
    assert fault["place"]["function"] == function
    if source is not None:
        assert (fault["place"]["file"], fault["place"]["line"]) == (HIP, line_of(source))
    first = fault["threads"][0]
    assert (first["block"], first["thread"], fault["thread_count"]) == (block, thread, count)
    assert document["command"] == f"kerncap capture --on-fault -k '^{kernel}$' -- CMD"
    assert f"kernel       {kernel}  grid" in render(document)


@pytest.mark.parametrize("name", ["gfx90a-illegal", "gfx942-illegal", "gfx950-illegal"])
def test_the_launch_and_its_registers(dumps: Path, name: str) -> None:
    document = read(gpu_of(dumps / name))
    [kernel] = document["kernels"]
    assert (kernel["grid"], kernel["block"]) == ((2, 1, 1), (32, 4, 1))
    assert kernel["resident_threads"] == 128
    out, table, by, n = (bytes.fromhex(each["bytes"]) for each in kernel["parameters"])
    values, wrong = struct.unpack("<Qi4x", table)
    assert (struct.unpack("<f", by), struct.unpack("<i", n), wrong) == ((2.0,), (256,), 165)
    allocated = [(each["address"], each["bytes"]) for each in document["memory"] if each["kind"] == "global"]
    for pointer in (int.from_bytes(out, "little"), values):
        assert any(0 <= pointer - start < size for start, size in allocated)
    [fault] = document["faults"]
    state = fault["first_thread"]
    assert state["special"]["exec"] == (1 << 64) - 1
    assert state["special"]["trapsts"] >> 28 & 1
    [elsewhere] = document["elsewhere"]
    assert elsewhere["place"]["function"] == "_Z5scalePf5Tablefi"
    assert elsewhere["thread_count"] == 64
    assert [each for each in document["memory"] if each["kind"] == "shared"]


@pytest.mark.parametrize("name", ["gfx90a-store", "gfx950-store"])
def test_the_lane_and_the_address_of_a_store(dumps: Path, name: str) -> None:
    document = read(gpu_of(dumps / name), dumps / ("fault950" if "950" in name else "fault"))
    [fault] = document["faults"]
    [kernel] = document["kernels"]
    out, _, by = (int.from_bytes(bytes.fromhex(each["bytes"]), "little") for each in kernel["parameters"])
    assert by == 1 << 40
    first, second = fault["threads"][:2]
    assert (first["block"], first["thread"]) == ((1, 0, 0), (36, 0, 0))
    assert first["access"] == {"space": "global", "address": out + 4 * (100 + by), "in_dump": False}
    assert second["access"] == {"space": "global", "address": out + 4 * 64, "in_dump": True}
    assert fault["first_thread"]["lane"] == 36
    assert fault["pc"] < fault["first_thread"]["pc"]
    assert (fault["place"]["function"], fault["place"]["line"]) == ("_Z3putPfil", line_of("out[i == wrong"))
    assert not any("later" in note or "after the access" in note for note in document["notes"])


def test_waves_that_were_not_told_their_workgroup(dumps: Path) -> None:
    document = read(gpu_of(dumps / "gfx90a-untold"), dumps / "fault")
    [fault] = document["faults"]
    assert fault["threads"][0] == {"block": None, "thread": None, "access": None}
    assert fault["blocks"] is None
    assert document["kernels"][fault["kernel"]]["name"] == "scale"
    assert document["kernels"][fault["kernel"]]["block"] == (32, 4, 1)
    assert any("HSA_ENABLE_DEBUG=1" in note for note in document["notes"])
    assert "threads      64 in blocks that aren't known" in render(document)


def test_names_that_only_the_program_has(dumps: Path) -> None:
    [fault] = read(gpu_of(dumps / "gfx942-illegal"))["faults"]
    assert fault["place"]["function"] is None
    assert fault["place"]["kernel"] == "_Z5scalePf5Tablefi"
    other = read(gpu_of(dumps / "gfx942-illegal"), dumps / "fault950")
    assert other["faults"][0]["place"]["line"] is None
    assert any("no code object with the dump's kernels" in note for note in other["notes"])


def test_without_the_core_dump_of_the_process(copy: Callable[[str], Path]) -> None:
    gpu = copy("gfx942-illegal")
    host = host_of(gpu).rename(gpu.parent / "elsewhere")
    document = read(gpu)
    [fault] = document["faults"]
    assert fault["exception"]["name"] == "DEVICE_MEMORY_VIOLATION"
    assert document["kernels"] == []
    assert any("--host-core" in note for note in document["notes"])
    assert document["command"] == "kerncap capture --on-fault -- CMD"
    assert read(gpu, host_core=host)["kernels"][0]["name"] == "scale"


def test_the_core_dump_of_another_process(copy: Callable[[str], Path], dumps: Path) -> None:
    gpu = copy("gfx942-illegal")
    host_of(gpu).unlink()
    other = host_of(gpu_of(dumps / "gfx90a-illegal"))
    shutil.copy(other, gpu.parent / "core")
    document = read(gpu)
    assert document["kernels"] == []
    assert any("of process" in note and "not read" in note for note in document["notes"])
    with pytest.raises(UsageError, match="of process"):
        read(gpu, host_core=other)


def test_a_core_dump_outside_the_folders_is_left_alone(copy: Callable[[str], Path]) -> None:
    gpu = copy("gfx942-illegal")
    host = host_of(gpu)
    target = host.rename(gpu.parent.parent / "moved")
    host.symlink_to(target)
    assert read(gpu)["kernels"]
    assert read(gpu, within=[gpu.parent])["kernels"] == []


def test_one_file_of_both(copy: Callable[[str], Path]) -> None:
    """As roccoremerge and rocgdb's gcore write it."""
    gpu = copy("gfx90a-illegal")
    both = gpu.parent / "both"
    both.write_bytes(merged(host_of(gpu).read_bytes(), gpu.read_bytes()))
    [fault] = read(both)["faults"]
    assert fault["threads"][0]["block"] == (1, 0, 0)


def merged(host: bytes, gpu: bytes) -> bytes:
    """The process's core file with the segments and notes of both."""
    parts = []
    for data in (host, gpu):
        header = HEADER.unpack_from(data)
        for kind, _, at, address, _, size, _, _ in SEGMENT.iter_unpack(data[64 : 64 + 56 * header[10]]):
            parts.append((kind, address, data[at : at + size]))
    head = list(HEADER.unpack_from(host))
    head[10] = len(parts)
    place, table, rest = 64 + 56 * len(parts), b"", b""
    for kind, address, content in parts:
        table += SEGMENT.pack(kind, 6, place + len(rest), address, 0, len(content), len(content), 16)
        rest += content
    return HEADER.pack(*head) + table + rest


def test_an_architecture_whose_waves_are_not_read(copy: Callable[[str], Path]) -> None:
    gpu = copy("gfx942-illegal")
    change(gpu, struct.pack("<I", 90402), struct.pack("<I", 110000))
    document = read(gpu)
    assert document["devices"][0]["arch"] == "gfx1100"
    assert any("gfx1100" in note and "rocgdb" in note for note in document["notes"])
    assert document["kernels"] == []


def change(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert data.count(old) >= 1
    path.write_bytes(data.replace(old, new))


def note_in(data: bytes) -> int:
    """Where the content of ROCr's note begins."""
    return data.index(b"AMDGPU\0") + 8


def area_in(gpu: Path) -> tuple[int, int, int]:
    """Where in the process's core file the area of the queue with waves is: its header, stack and waves."""
    data, host = gpu.read_bytes(), host_of(gpu).read_bytes()
    at = note_in(data)
    agents, agent_bytes, queues, queue_bytes = struct.unpack_from("<4I", data, at + 24)
    first = at + 40 + 16 + agents * agent_bytes
    header = HEADER.unpack_from(host)
    segments = list(SEGMENT.iter_unpack(host[64 : 64 + 56 * header[10]]))

    def place(address: int) -> int | None:
        return next(
            (at + address - start for kind, _, at, start, _, size, _, _ in segments
             if kind == 1 and 0 <= address - start < size), None,
        )  # fmt: skip

    for number in range(queues):
        (area,) = struct.unpack_from("<Q", data, first + number * queue_bytes + 32)
        begin = place(area) if area else None
        if begin is not None:
            stack, stack_bytes, end, used = struct.unpack_from("<4I", host, begin)
            where = place(area + stack), place(area + end - used)
            if stack_bytes and where[0] is not None and where[1] is not None:
                return begin, where[0], where[1]
    raise AssertionError("no queue with waves")


DAMAGES: dict[str, tuple[Callable[[bytes, Path], bytes], str]] = {
    "cut off in the header": (lambda data, _: data[:40], "not a core dump of a GPU|ends within its header"),
    "cut off": (lambda data, _: data[:5000], "cut off"),
    "no segments": (lambda data, _: data[:56] + bytes(2) + data[58:], "segment headers"),
    "wide segment headers": (lambda data, _: data[:54] + b"\x40" + data[55:], "segment headers"),
    "segment headers far away": (lambda data, _: patched(data, 32, b"\xff" * 8), "cut off"),
    "a segment that is too long": (lambda data, _: patched(data, 64 + 56 + 32, b"\xff" * 7), "cut off"),
    "a note of a later version": (lambda data, _: patched(data, note_in(data), b"\2"), "version 2"),
    "a note that is too short": (lambda data, _: patched(data, note_in(data) + 24, b"\xff\xff"), "a note of"),
    "queues of no size": (lambda data, _: patched(data, note_in(data) + 36, b"\x08"), "bytes for a queue"),
    "a note that leads out": (
        lambda data, _: patched(data, note_in(data) - 16, b"\xff\xff\xff"),
        "a note of",
    ),
}
HOST_DAMAGES: dict[str, tuple[int, int, bytes, str]] = {  # of the area: 0 header, 1 stack, 2 waves
    "a stack elsewhere": (0, 0, b"\xff\xff", "the waves of queue"),
    "fewer waves than bytes": (1, 12, b"\x00\x00\x00\x80", "of no wave|not in it"),
    "registers that are too many": (1, 8, b"\xff\xff\xff\xbf", "not in it"),
    "no state": (1, 8, b"\x00\x00\x00\x40", "not in it|no wave"),
}


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_dump(copy: Callable[[str], Path], name: str) -> None:
    gpu = copy("gfx942-illegal")
    damage, problem = DAMAGES[name]
    gpu.write_bytes(damage(gpu.read_bytes(), gpu))
    with pytest.raises(FormatError, match=problem) as raised:
        read(gpu)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", HOST_DAMAGES)
def test_damaged_waves(copy: Callable[[str], Path], name: str) -> None:
    gpu = copy("gfx942-illegal")
    where, offset, value, problem = HOST_DAMAGES[name]
    host = host_of(gpu)
    host.write_bytes(patched(host.read_bytes(), area_in(gpu)[where] + offset, value))
    with pytest.raises(FormatError, match=problem) as raised:
        read(gpu)
    assert str(raised.value).startswith(f"{host}: byte ")


def test_a_process_alone_is_no_dump_of_a_gpu(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = host_of(gpu_of(dumps / "gfx942-illegal"))
    assert main(["from-core", str(host)]) == 3
    assert "gpucore.PID" in capsys.readouterr().err


def test_a_damaged_core_of_the_process_is_a_note(copy: Callable[[str], Path]) -> None:
    gpu = copy("gfx942-illegal")
    host = host_of(gpu)
    host.write_bytes(host.read_bytes()[:3000])
    document = read(gpu)
    assert document["kernels"] == []
    assert any("cut off" in note for note in document["notes"])


def test_the_command(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = gpu_of(dumps / "gfx950-illegal")
    assert main(["from-core", str(gpu), "--exe", str(dumps / "fault950")]) == 0
    out = capsys.readouterr().out
    assert f"source       {HIP}:{line_of('in[at]')}" in out
    assert re.search(r"^v0 +[0-9a-f]{8} ", out, re.MULTILINE)


def mutated(data: bytes, chance: random.Random, starts: list[int]) -> bytes:
    """Some bytes changed, near one of ``starts`` more often than elsewhere; sometimes cut off."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        start = chance.choice([*starts, 0])
        at = min(len(found) - 8, chance.choice((start + chance.randrange(256), chance.randrange(len(found)))))
        width = chance.choice((1, 2, 4, 8))
        value = chance.choice((0, 1, 0xFF, 1 << 31, (1 << 64) - 1, chance.getrandbits(64)))
        found[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(found[: chance.randrange(len(found))] if chance.random() < 0.1 else found)


@pytest.mark.parametrize("name", ["gfx90a-illegal", "gfx950-store"])
def test_damaged_ones_end_in_one_line(copy: Callable[[str], Path], name: str, dumps: Path) -> None:
    gpu = copy(name)
    host = host_of(gpu)
    program = dumps / ("fault950" if "950" in name else "fault")
    whole, process, areas = gpu.read_bytes(), host.read_bytes(), list(area_in(gpu))
    problems = set()
    for seed in range(150):
        chance = random.Random(seed)
        gpu.write_bytes(mutated(whole, chance, [64, note_in(whole)]) if seed % 2 else whole)
        host.write_bytes(process if seed % 2 else mutated(process, chance, areas))
        try:
            read(gpu, program if seed % 8 < 5 else None, host_core=host if seed % 4 == 0 else None)
        except (FormatError, UsageError) as error:
            assert "\n" not in str(error)
            problems.add(re.sub(r"[\d,]+|0x\w+", "#", str(error).rpartition(": ")[2])[:40])
    assert len(problems) >= 5, problems
