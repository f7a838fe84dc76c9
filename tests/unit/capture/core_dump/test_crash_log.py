"""A log in place of a dump: it leads to the dump that it names, or to what it says and the next command."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from kerncap.api import from_core
from kerncap.capture.core_dump import crash_log
from kerncap.cli import main
from kerncap.errors import FormatError, UsageError
from kerncap.report.from_core_text import render
from tests.unit.capture.core_dump import built_dumps as built
from tests.unit.schemas.strict import check

ILLEGAL = """INFO 11-27 12:00:00 [core.py:58] Initializing a V1 LLM engine
(EngineCore_DP0 pid=301) torch.AcceleratorError: CUDA error: an illegal memory access was encountered
(EngineCore_DP0 pid=301) Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/ for more.
(EngineCore_DP0 pid=301) CUDA kernel errors might be asynchronously reported at some other API call, so the \
stacktrace below might be incorrect.
"""
PROGRESS = """[06:43:15.2] coredump: Detected an exception of type CUDBG_EXCEPTION_WARP_ILLEGAL_ADDRESS (14)
[06:43:15.209202] coredump:   - Device: 0
[06:43:15.209210] coredump:   - PC 0x7462c3bac310
[06:43:15.209477] coredump: Stack trace (lane masks: active 0xFFFFFFFF, valid 0xFFFFFFFF):
[06:43:15.209486] coredump:   #0\t0x7462c3bac620\t_Z4pickPKfi
[06:43:15.209486] coredump:   #1\t0x7462c3bac720\t_Z5scalePfi
[06:43:15.209499] coredump: SM 125/132 has finished state collection
[06:43:15.806153] coredump: Writing ELF file to {}
"""
ASSERTED = "".join(
    f"/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:93: operator(): block: [7,0,0], thread: [{n},0,0] "
    "Assertion `index < sizes[i]` failed.\n"
    for n in range(32, 96)
)
CUDA_NEEDS = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_COREDUMP_SHOW_PROGRESS=1"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "serve.log"


def read(path: Path, **options: Any) -> dict[str, Any]:
    document = from_core(path, **options)
    check("from-core", document)
    render(document)
    return document


def test_it_leads_to_the_dump(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = log.parent / "dumps"
    elsewhere.mkdir()
    dump = elsewhere / "cuda_coredump_host.301.1764236276"
    dump.write_bytes(built.dump().elf())
    log.write_text(PROGRESS.format(dump) + ILLEGAL)
    document = read(log)
    assert document["path"] == str(dump) and document["faults"][0]["exception"]["code"] == 14
    assert document["log"]["dumps"] == [{"path": str(dump), "problem": None}]
    dump.rename(log.parent / dump.name)  # as it comes with the log from another machine
    assert main(["from-core", str(log)]) == 0
    page = capsys.readouterr().out
    assert f"core dump    {dump}\n" in page and f"\n{log.parent / dump.name}\n" in page
    assert (
        "/src/scale.cu:9" in page
        and "error        an illegal memory access was encountered (line 10)" in page
    )


def test_the_last_dump_that_can_be_read(log: Path) -> None:
    names = ["core_1", "core_2", "core_3"]
    for name in names:
        (log.parent / name).write_bytes(built.dump().elf()[: 3000 if name == "core_3" else None])
    log.write_text("".join(PROGRESS.format(f"/gone/{name}") for name in [*names, "core_4"]) + ILLEGAL)
    document = read(log)
    assert document["path"] == str(log.parent / "core_2")
    missing, cut_off, taken, older = document["log"]["dumps"]
    assert missing == {"path": "/gone/core_4", "problem": "not here; copy it next to the log"}
    assert "the dump was cut off" in cut_off["problem"]
    assert taken["problem"] is None and older == {"path": "/gone/core_1", "problem": None}


def test_without_the_dump_the_kernel_is_known(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(PROGRESS.format("/tmp/cuda_coredump_host.1.2"))
    assert main(["from-core", str(log)]) == 1
    page = capsys.readouterr().out
    assert "exception    WARP_ILLEGAL_ADDRESS\nkernel       scale\n" in page
    assert "core dump    /tmp/cuda_coredump_host.1.2: not here; copy it next to the log" in page
    assert page.endswith(
        "to make a reproducer in the next run: kerncap capture --on-fault -k '^scale$' -- CMD\n"
    )


def test_an_assertion_that_torch_reports(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(
        ASSERTED + ILLEGAL.replace("an illegal memory access was encountered", "device-side assert triggered")
    )
    assert main(["from-core", str(log)]) == 1
    page = capsys.readouterr().out
    assert "error        device-side assert triggered (line 66)" in page
    assert (
        "assertion    /pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:93, in operator(): index < sizes[i]\n"
        "             block (7, 0, 0) thread (32, 0, 0) and 63 more\n" in page
    )
    # `operator()` may be a function that the kernel calls: no -k.
    assert CUDA_NEEDS in page and page.endswith("kerncap capture --on-fault -- CMD\n")
    assert read(log)["log"]["assertions"][0]["count"] == 64


def test_what_torch_says_of_device_side_assertions(log: Path) -> None:
    log.write_text(
        "RuntimeError: CUDA error: device-side assert triggered\n"
        "CUDA device-side assertion failures were found on GPU #0!\n"
        "  Name of kernel launched that led to failure = index_kernel\n"
    )
    assert read(log)["command"] == "kerncap capture --on-fault -k '^index_kernel$' -- CMD"


def test_a_fault_on_an_amd_gpu(log: Path) -> None:
    elf = bytearray(64)
    elf[:20] = b"\x7fELF\2\1\1\x40" + bytes(8) + struct.pack("<HH", 4, 224)
    (log.parent / "gpucore.12").write_bytes(elf)
    log.write_text(
        "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x798a45c26000. Reason: Unknown.\n"
        "GPU core dump created: gpucore.12\n"
        "add.hip:12: add: Device-side assertion `n > 0' failed.\n"
        "Kernel Name: _Z3addPfi\n"
    )
    document = read(log)
    assert document["log"]["error"].startswith("Memory access fault by GPU node-1")
    assert "0 segment headers" in document["log"]["dumps"][0]["problem"]
    assert [(each["file"], each["text"], each["thread"]) for each in document["log"]["assertions"]] == [
        ("add.hip", "n > 0", None)
    ]
    assert document["command"] == "kerncap capture --on-fault -k '^add$' -- CMD"
    [note] = document["notes"]
    assert "ulimit -c unlimited" in note
    with pytest.raises(FormatError, match="byte 54: 0 segment headers"):
        from_core(log.parent / "gpucore.12")


@pytest.mark.parametrize(
    "error", ["out of memory", "no kernel image is available for execution on the device"]
)
def test_another_error_is_no_fault(log: Path, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(f"starting\nRuntimeError: CUDA error: {error}\n")
    assert main(["from-core", str(log)]) == 2
    assert f"serve.log: line 2: '{error}' is not the fault of a kernel" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"all is well\n", b"", b"\x00" + ILLEGAL.encode()])
def test_what_is_no_log_of_a_crash(log: Path, data: bytes) -> None:
    log.write_bytes(data)
    with pytest.raises(FormatError, match="not a core dump of a GPU, nor a log of its fault"):
        from_core(log)


def test_the_variable_that_names_dumps(tmp_path: Path) -> None:
    for age, name in enumerate(("core_[x].30.7", "core_[x].4.9", "core_[x].5.8", "core_y.6.9")):
        (tmp_path / name).write_bytes(built.dump().elf())
        os.utime(tmp_path / name, ns=(age, age))
    (tmp_path / "core_[x].7.9").mkdir()
    assert read(tmp_path / "core_[x].%p.%t")["path"] == str(tmp_path / "core_[x].5.8")
    with pytest.raises(UsageError, match="no core dump has such a name"):
        from_core(tmp_path / "other_%h.%p")


def test_a_dump_outside_of_an_agents_folders(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.nvcudmp"
    root.mkdir()
    outside.write_bytes(built.dump().elf())
    (root / "link").symlink_to(outside)
    log = root / "serve.log"
    for named in (outside, "../outside.nvcudmp", "link"):
        log.write_text(PROGRESS.format(named) + ILLEGAL)
        assert read(log)["path"] != str(log)
        [dump] = read(log, within=[root])["log"]["dumps"]
        assert "outside the folders" in dump["problem"]
    (root / "core_1").symlink_to(outside)
    with pytest.raises(UsageError, match="outside the folders"):
        from_core(root / "core_%p", within=[root])


def test_a_hostile_log_is_bounded_and_shown_escaped(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dumps = "".join(f"coredump: Writing ELF file to /gone/{n}\n" for n in range(1000))
    kernels = "".join(f"Kernel Name: _Z{n}\n" for n in range(1000))
    failed = "".join(
        f"a.cu:{n}: f: block: [0,0,0], thread: [0,0,0] Assertion `x` failed.\n" for n in range(1000)
    )
    lines = (
        "a:1: " * (1 << 18) + "Assertion `\n" + "coredump: Writing ELF file to /gone/\x1b]0;title\x07\0name\n"
    )
    log.write_text(
        ILLEGAL
        + dumps
        + kernels
        + failed
        + lines
        + "block: [1,1,1], thread: ["
        + "9" * 5000
        + ",1,1] Assertion `x` failed\n"
    )
    document = read(log)
    said = document["log"]
    assert [len(said[key]) for key in ("dumps", "kernels", "assertions")] == [crash_log.MAX_FOUND] * 3
    assert main(["from-core", str(log)]) == 1
    page = capsys.readouterr().out
    assert "\x1b" not in page and "\0" not in page and "\\x1b]0;title" in page
