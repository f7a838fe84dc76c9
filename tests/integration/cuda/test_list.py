"""`kerncap list` of native programs: rows, clocks, ranges, graphs; on the stand-in driver and its CUPTI."""

from __future__ import annotations

import ctypes
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cuda.conftest import Bench
from tests.integration.traces import read_trace
from tests.parameters import first_of

PROGRAM = Path(__file__).with_name("targets") / "launch.py"


def listed(bench: Bench, *client: str | Path, cupti: bool = True, **extra: str) -> dict[str, Any]:
    """The document of `list` for a client, whose own output stays what it is without."""
    folder = bench.rig.folder
    both = {"LD_LIBRARY_PATH": f"{folder}:{folder / 'cupti'}"} if cupti else {}
    plain = bench.rig.run(*client, extra=both)
    program = bench.rig.client(str(client[0]))
    done = bench("list", "--json", "--", program, *client[1:], extra={**both, **extra})
    assert done.status == plain.status == 0, done.stderr
    assert plain.stdout in done.stderr
    return done.document


def rows_of(document: dict[str, Any], kernel: str) -> list[dict[str, Any]]:
    [found] = [entry for entry in document["kernels"] if entry["name"] == kernel]
    rows: list[dict[str, Any]] = found["rows"]
    assert sum(row["launches"] for row in rows) == found["launches"]
    assert sum(row["time_ns"] for row in rows) == found["time_ns"]
    return rows


def clock_of(document: dict[str, Any]) -> tuple[str, str | None]:
    [clock] = document["clocks"]
    return clock["clock"], clock["reason"]


def test_ranges_by_cupti(bench: Bench) -> None:
    document = listed(bench, "ranges")
    assert clock_of(document) == ("cupti", None)
    rows = rows_of(document, "scale_in_place")
    assert [(row["range"], row["grid"][0], row["launches"]) for row in rows] == [
        ([], 16, 2), (["step"], 16, 1), (["step", "attention"], 16, 1), (["attention"], 16, 1),
        (["époque", "step"], 16, 1), (["époque", "step"], 32, 1),
    ]  # fmt: skip
    assert all(row["timed"] == row["launches"] and row["time_ns"] > 0 for row in rows)


def test_kernels_of_graphs_by_cupti(bench: Bench) -> None:
    for client in ("captured", "child"):
        document = listed(bench, "graphs", client)
        [scale] = rows_of(document, "scale_in_place")
        assert (scale["route"], scale["launches"], scale["timed"]) == ("cuGraphLaunch", 4, 4)
        assert {entry["name"]: entry["launches"] for entry in document["kernels"]} == {
            "scale_in_place": 4, "vector_add": 2, "increment": 2,
        }  # fmt: skip
        assert all(entry["timed_launches"] == entry["launches"] for entry in document["kernels"])


@first_of("client", [("graphs", "captured"), ("ranges",), ("graphs", "beside")])
def test_each_command_captures_its_kernel_and_no_other(bench: Bench, client: tuple[str, ...]) -> None:
    document = listed(bench, *client, cupti=False)
    assert document["kernels"]
    for kernel in document["kernels"]:
        words = shlex.split(kernel["command"])
        assert words[:2] == ["kerncap", "capture"] and kernel["command_is_exact"]
        done = bench("capture", "--json", "--no-self-check", "-o", kernel["name"], *words[2:])
        assert done.status == 0, done.stderr
        assert [each["kernel"] for each in done.document["reproducers"]] == [kernel["name"]]


def test_kernels_of_a_graph_beside_the_same_ones_launched(bench: Bench) -> None:
    document = listed(bench, "graphs", "beside")
    rows = {row["route"]: row for row in rows_of(document, "scale_in_place")}
    assert {route: (row["launches"], row["timed"]) for route, row in rows.items()} == {
        "cuLaunchKernel": (2, 2), "cuGraphLaunch": (4, 4),
    }  # fmt: skip


def test_threads_have_streams_of_their_own(bench: Bench) -> None:
    rows = rows_of(listed(bench, "threads"), "mix")
    assert [row["launches"] for row in rows] == [12] * 8 and len({row["stream"] for row in rows}) == 8
    assert all(row["timed"] == 12 for row in rows)


@pytest.mark.parametrize(
    ("extra", "cupti", "reasons"),
    [
        # Or a real one is there, which finds no driver of its own.
        ({}, False, ("no libcupti was found", "CUPTI refused")),
        ({"KERNCAP_NO_CUPTI": "1"}, True, ("KERNCAP_NO_CUPTI is set",)),
        ({"KERNCAP_RIG_CUPTI_SUBSCRIBED": "1"}, True, ("a profiler is attached to CUPTI already",)),
        ({"CUDA_INJECTION64_PATH": "/nowhere/profiler.so"}, True, ("CUDA_INJECTION64_PATH",)),
    ],
)
def test_events_where_cupti_cannot_be_had(
    bench: Bench, extra: dict[str, str], cupti: bool, reasons: tuple[str, ...]
) -> None:
    document = listed(bench, "values", "many", cupti=cupti, **extra)
    clock, why = clock_of(document)
    assert clock == "events" and any(reason in (why or "") for reason in reasons)
    for kernel in ("increment", "scale_in_place"):
        [row] = rows_of(document, kernel)
        assert (row["launches"], row["timed"]) == (10, 10) and row["time_ns"] > 0


def test_a_program_that_profiles_itself_gets_cupti(bench: Bench) -> None:
    document = listed(bench, "ranges", "profile")
    clock, why = clock_of(document)
    assert clock == "events" and "begun to profile itself" in (why or "")
    assert all(row["timed"] == row["launches"] for row in rows_of(document, "scale_in_place"))


def test_a_range_selects(bench: Bench) -> None:
    options = ("-k", "scale_in_place", "--launch", "0:9")
    captured = bench.capture(*options, "--range", "^step/att", client=("ranges",), expect=1)
    assert captured.document["reproducers"][0]["range"] == ["step", "attention"]
    where = bench.capture(*options, "--where", "range == 'attention'", client=("ranges",), expect=1)
    bench.passes(where.path)


def test_the_stack_of_a_python_program(bench: Bench) -> None:
    """Where the interpreter exports its traceback writer; else there is none."""
    done = bench("list", "--json", "--", sys.executable, PROGRAM)
    [kernel] = done.document["kernels"]
    if hasattr(ctypes.CDLL(None), "_Py_DumpTraceback"):
        functions = [frame[2] for frame in kernel["stack"]]
        assert functions == ["<module>", "outer", "inner"], kernel["stack"]
        assert {frame[0] for frame in kernel["stack"]} == {str(PROGRAM)}
    else:
        assert kernel["stack"] == []


def test_a_launch_of_the_hook_has_its_configuration(bench: Bench) -> None:
    extra = {"LD_LIBRARY_PATH": f"{bench.rig.folder}:{bench.rig.folder / 'cupti'}"}
    done = bench("list", "--json", "--", sys.executable, PROGRAM, "owned", extra=extra)
    [kernel] = done.document["kernels"]
    [row] = kernel["rows"]
    assert (row["launches"], row["timed"]) == (1, 1) and "BLOCK=64" in row["config"]


@pytest.mark.parametrize("cupti", [True, False], ids=["cupti", "events"])
def test_a_timeline_has_launches_copies_and_ranges(bench: Bench, cupti: bool) -> None:
    rig = bench.rig.folder
    libraries = f"{rig}:{rig / 'cupti'}" if cupti else str(rig)
    extra = {"LD_LIBRARY_PATH": libraries, **({} if cupti else {"KERNCAP_NO_CUPTI": "1"})}
    done = bench("list", "--json", "--timeline", "trace.json", "--", bench.rig.client("ranges"), extra=extra)
    assert done.status == 0, done.stderr
    tracks = read_trace(bench.kerncap.folder / "trace.json")
    [stream] = [track for title, track in tracks.items() if title.startswith("GPU 0, ")]
    launches = [event for event in stream if event["cat"] == "launch"]
    assert [event["name"] for event in launches] == ["scale_in_place"] * 7
    assert [event["args"]["grid"][0] for event in launches] == [16] * 5 + [32, 16]
    [kernel] = done.document["kernels"]
    assert round(sum(event["dur"] for event in launches) * 1e3) == kernel["time_ns"]
    copies = [(event["name"], event["args"]["bytes"]) for event in stream if event["cat"] == "copy"]
    assert copies == ([("copy host to device", 16384), ("copy device to host", 16384)] if cupti else [])
    threads = [track for title, track in tracks.items() if title.startswith("host, thread ")]
    # The domain's range outlives the one around it, so it has a track of its own.
    assert [[event["name"] for event in track] for track in threads] == [["step", "step"], ["attention"]]
    assert [event["name"] for event in tracks["host"]] == ["époque"]
    if (
        cupti
    ):  # the stand-in's clock is the host's; the program waits for its first launches before that range
        epoch = tracks["host"][0]
        assert launches[4]["ts"] >= epoch["ts"] >= launches[3]["ts"] + launches[3]["dur"]
    assert done.document["timeline"] == {
        "path": "trace.json", "launches": 7, "copies": len(copies), "ranges": 4, "lost": 0
    }  # fmt: skip
