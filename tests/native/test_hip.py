"""The HIP shim over a stand-in runtime: tables of every version, captures out of queues in every situation.

And its declarations against the HSA headers that are installed."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture.session_socket import SessionServer
from kerncap.format import records
from kerncap.format.records import RecordKind
from tests.native.building import PLAIN_AND_SANITIZED, ROOT, shims
from tests.session_options import session_json

pytestmark = pytest.mark.long  # the shim on a runtime of our own; tests/integration/hip has ROCm's

SOURCES = Path(__file__).parent / "hip"
SHIM = ROOT / "shims" / "hip"
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="session", params=PLAIN_AND_SANITIZED)
def program(request: pytest.FixtureRequest) -> Path:
    return shims("hip_tests", request.param) / "tests/hip/hip_tests"


class Run:
    """One case in a session of its own, answered as the command line would."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self.program = program

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["ask"] == "globals":
            return {"globals": [], "parameters": [[0, 8]]}
        return {"match": question["demangled"] == "add(float*)", "reason": "name"}

    def __call__(self, case: str, **conf: object) -> None:
        server = SessionServer(self.folder, TOKEN, self.answer)
        try:
            told = session_json(**{"token": TOKEN, "socket": server.path, "backend": "hip", **conf})
            (self.folder / "session.json").write_text(json.dumps(told))
            run(self.program, case, KERNCAP_SESSION=str(self.folder / "session.json"))
        finally:
            server.close()

    def of(self, kind: RecordKind) -> list[dict[str, Any]]:
        [path] = self.folder.glob("*/records")
        return [r.payload for r in records.decode(path.read_bytes()) if r.kind is kind]

    def first_float(self, kind: str, launch: int = 0) -> float:
        [path] = self.folder.glob(f"*/{launch}.{kind}")
        value: float = struct.unpack("f", path.read_bytes()[:4])[0]
        return value


def run(program: Path, case: str, **environment: str) -> None:
    plain = {key: value for key, value in os.environ.items() if key != "KERNCAP_SESSION"}
    # Its threads run until the end, and what the shim keeps is never given back.
    options = {"TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [program, case], env={**plain, **options, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{case}: {done.stderr}{done.stdout}"


@pytest.fixture
def capture(tmp_path: Path, program: Path) -> Iterator[Run]:
    yield Run(tmp_path, program)


def table_cases() -> list[str]:
    found = re.findall(r"^CASE\((\w+)\)", (SOURCES / "table_cases.cpp").read_text(), re.MULTILINE)
    return sorted(name for name in found if name.startswith("tables_capture_"))


@pytest.mark.parametrize("case", table_cases())
def test_tables(capture: Run, case: str) -> None:
    capture(case)


def test_without_a_session_nothing_is_touched(program: Path) -> None:
    run(program, "tables_without_a_session_nothing_is_touched")


def test_an_unknown_version_is_said_once(capture: Run) -> None:
    capture("tables_capture_of_an_unknown_version_are_left_alone")
    [failed] = capture.of(RecordKind.FAILED)
    assert "tables of a version that this kerncap does not know" in failed["reason"]
    assert "amd_ext table 3.592" in failed["reason"]


def test_a_packet_without_its_barrier_bit_is_told(capture: Run) -> None:
    capture("queue_without_a_barrier")
    [launch] = capture.of(RecordKind.LAUNCH)
    assert (launch["stream"], launch["route"]) == ("hsa queue 0", "hsa queue 0, no barrier")


def test_a_queue_that_streams_may_share_is_told(capture: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_MAX_HW_QUEUES", "1")
    capture("queue_chosen_in_the_middle_of_a_batch")
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["route"] == "hsa queue 0, perhaps of several streams"


def test_waits_for_signals_of_other_queues_order_a_range(capture: Run) -> None:
    capture("queue_order_of_a_range", launches=[0, 7])
    order = [
        [(call["call"], call.get("stream_number"), call.get("event")) for call in launch["order"]]
        for launch in capture.of(RecordKind.LAUNCH)
    ]
    before = [calls[:-2] for calls in order]
    streams = [1, 2, 1, 2, 2, 2, 2]
    assert [calls[-2:] for calls in order] == [
        [("unknown", None, None), ("launch", stream, None)] for stream in streams
    ]
    assert before == [
        [], [("record", 1, 1), ("wait", 2, 1)], [], [], [], [("record", 1, 2), ("wait", 2, 2)], []
    ]  # fmt: skip


def test_the_order_of_a_queue_that_streams_may_share_is_not_recorded(
    capture: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_MAX_HW_QUEUES", "2")
    capture("queue_order_of_a_range", launches=[0, 7])
    launches = capture.of(RecordKind.LAUNCH)
    assert len(launches) == 7 and not any("order" in launch for launch in launches)


def test_from_a_packet_without_its_barrier_bit_on_no_order_is_recorded(capture: Run) -> None:
    capture("queue_order_without_a_barrier", launches=[0, 3])
    assert ["order" in launch for launch in capture.of(RecordKind.LAUNCH)] == [True, False, False]


def test_a_launch_in_the_middle_of_a_batch(capture: Run) -> None:
    capture("queue_chosen_in_the_middle_of_a_batch")
    [launch], [complete] = capture.of(RecordKind.LAUNCH), capture.of(RecordKind.COMPLETE)
    # 3, doubled by two packets before it, the copy of the runtime's own among them; not by the one behind.
    assert capture.first_float("pre") == 12 and capture.first_float("post") == 13
    assert launch["kernel"] == {"name": "add", "qualified_name": "add(float*)", "mangled": "_Z3addPf"}
    assert (launch["grid"], launch["block"], launch["shared_bytes"]) == ([2, 1, 1], [64, 1, 1], 64)
    dispatch = launch["dispatch"]
    assert dispatch.pop("kernel_object") > 0
    assert dispatch == {"work_items": [100, 1, 1], "group_bytes": 192, "private_bytes": 0, "dimensions": 1}
    assert launch["route"] == launch["stream"] == "hsa queue 0"
    assert launch["parameters"]["layout"] is None and len(launch["parameters"]["bytes"]) == 32
    assert (launch["device"]["kind"], launch["device"]["arch"]) == ("hip", "gfx90a")
    assert launch["image"]["kind"] == "elf" and complete["oracle"] == "trusted"
    [region] = launch["regions"]
    assert (region["size"], region["kind"], region["reason"]) == (4000, "device", "parameter 0")
    # Kernels of the runtime's own are no launches.
    assert set(capture.of(RecordKind.COUNTS)[-1]["kernels"]) == {"add(float*)", "other(float*)"}
    assert capture.of(RecordKind.PROCESS)[0]["shim"] == "hip" and list(capture.folder.glob("hip-*"))


def test_one_packet_a_callback(capture: Run) -> None:
    capture("queue_one_packet_a_callback", launch=[0, 40])
    assert len(capture.of(RecordKind.COMPLETE)) == 40
    assert [capture.first_float("pre", i) for i in range(40)] == list(range(40))


def test_others_wait_at_the_gate(capture: Run) -> None:
    capture("queue_others_wait_at_the_gate", launch=[0, 60], drain_timeout_s=30.0)
    assert not capture.of(RecordKind.FAILED)
    assert len(capture.of(RecordKind.COMPLETE)) == 60
    for launch in range(60):  # nothing else of its own queue ran meanwhile
        assert capture.first_float("post", launch) == capture.first_float("pre", launch) + 1


def test_a_queue_at_work_is_waited_for(capture: Run) -> None:
    capture("queue_at_work_is_waited_for")
    assert (capture.first_float("pre"), capture.first_float("post")) == (41, 42)


def test_threads_share_a_queue(capture: Run) -> None:
    capture("queue_shared_by_threads", launch=[0, 20], drain_timeout_s=30.0)
    assert not capture.of(RecordKind.FAILED) and len(capture.of(RecordKind.COMPLETE)) == 20


def test_a_queue_that_never_drains(capture: Run) -> None:
    capture("queue_that_never_drains", drain_timeout_s=0.3)
    [failed] = capture.of(RecordKind.FAILED)
    assert failed["reason"] == (
        "hsa queue 0 did not finish within 0.3 s before the launch; no other thread waits for kerncap, so it "
        "may wait for this launch or for what this thread does next"
    )
    assert (capture.first_float("pre"), capture.first_float("post")) == (1, 2)


def test_a_queue_that_is_full(capture: Run) -> None:
    capture("queue_that_is_full", drain_timeout_s=0.2)
    [failed] = capture.of(RecordKind.FAILED)
    assert failed["reason"].startswith("its queue is full of packets that do not end")
    assert (capture.first_float("pre"), capture.first_float("post")) == (1, 2)


def test_a_queue_of_a_single_producer(capture: Run) -> None:
    capture("queue_of_a_single_producer", drain_timeout_s=0.2)
    [failed] = capture.of(RecordKind.FAILED)
    assert failed["reason"].startswith("hsa queue 0 has one producer, and")


def test_a_queue_for_cooperative_launches_is_left_to_the_runtime(capture: Run) -> None:
    capture("queue_for_cooperative_launches")
    assert (capture.first_float("pre"), capture.first_float("post")) == (0, 1)


def test_a_queue_that_can_not_be_intercepted(capture: Run) -> None:
    capture("queue_that_can_not_be_intercepted")
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["notes"] == [
        "1 queues could not be intercepted: what they had under way was not waited for"
    ]


def test_a_copy_under_way_is_waited_for(capture: Run) -> None:
    capture("queue_copy_under_way_is_waited_for")
    assert (capture.first_float("pre"), capture.first_float("post")) == (5, 6)


# --- against the runtime's own headers -----------------------------------------------------------------


def header_folders() -> list[Path]:
    """Every folder here that holds HSA headers: a system's, and that of the emulated GPU's ROCm."""
    roots = [Path("/usr"), Path("/opt/rocm"), ROOT / "build" / "amd-gpu" / "rocm" / "usr"]
    roots += [Path(os.environ["ROCM_PATH"])] if os.environ.get("ROCM_PATH") else []
    return [root / "include" / "hsa" for root in roots if (root / "include/hsa/hsa_api_trace.h").is_file()]


def slots() -> list[tuple[str, list[str], str]]:
    text = (SHIM / "hooks.def").read_text() + (SHIM / "calls.def").read_text()
    core = re.findall(r"^KERNCAP_CORE\((\d+), (\w+),", text, re.MULTILINE)
    amd = re.findall(r"^KERNCAP_AMD_EXT\((-?\d+), (-?\d+), (\w+),", text, re.MULTILINE)
    assert len(core) + len(amd) == text.count("\nKERNCAP_")
    return [("core", [n, n], name) for n, name in core] + [("amd", [a, b], name) for a, b, name in amd]


@pytest.mark.parametrize("folder", header_folders() or [None], ids=str)
def test_declarations_agree_with_the_headers(folder: Path | None, tmp_path: Path) -> None:
    if folder is None:
        pytest.skip("needs HSA headers: libhsa-runtime-dev, /opt/rocm, or `make amd-gpu`")
    text = (folder / "hsa_api_trace.h").read_text()
    version = folder / "hsa_api_trace_version.h"
    text += version.read_text() if version.is_file() else ""
    found = re.search(r"HSA_AMD_EXT_API_TABLE_MAJOR_VERSION\s+0x0*(\d)", text)
    assert found is not None
    major = int(found[1])
    asserts, signatures = [], []
    for table, numbers, name in slots():
        slot = int(numbers[0 if table == "core" else major - 1])
        struct_name = "CoreApiTable" if table == "core" else "AmdExtTable"
        if slot < 0:
            assert f"{name}_fn" not in text
            continue
        place = f"offsetof({struct_name}, {name}_fn) == kerncap::hip::slot_offset({slot})"
        asserts.append(f'static_assert({place}, "{name}");')
        signatures.append(f'static_assert(same_arguments(ours.{name}, &{name}), "{name}");')
    (tmp_path / "slots.inc").write_text("\n".join(asserts))
    (tmp_path / "signatures.inc").write_text("\n".join(signatures))
    (tmp_path / "hsa").symlink_to(folder)  # its own parent may hold another libc's headers
    include = [f"-I{path}" for path in (tmp_path, folder, ROOT / "shims")]
    flags = ["-std=c++17", "-fsyntax-only", "-DAMD_INTERNAL_BUILD", "-w"]
    command = ["g++", *flags, *include, str(SOURCES / "against_headers.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, json.dumps(command) + done.stderr[:4000]
    assert len(asserts) >= 50
