"""Pre-state and post-state are the application's own bytes."""

from __future__ import annotations

import struct

import numpy as np

from kerncap.capture import payloads
from kerncap.format.records import RecordKind
from tests.parameters import first_of

from .conftest import ADD, CHUNK, Run


def floats(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def test_vector_add_has_its_bytes_before_and_after(run: Run) -> None:
    outcome = run(
        ADD + "x = torch.arange(300.); out = torch.full((300,), 7.)\n"
        "add[(3,)](x, x + 1, out, 300, BLOCK=128)\n"
        "out.zero_()  # later than the launch\nprint('done')"
    )
    process = outcome.only
    assert (outcome.status, outcome.stdout) == (0, "done\n")
    assert floats(process.pre(0, "out")) == [7.0] * 300
    assert floats(process.post(0, "out")) == [2.0 * i + 1 for i in range(300)]
    assert floats(process.post(0, "x")) == [float(i) for i in range(300)]
    launch, complete = process.launches[0], process.completes[0]
    assert launch["grid"] == [3, 1, 1] and launch["ordinal"] == 0 and launch["mode"] == "interpreter"
    assert complete["status"] == "complete" and complete["oracle"] == "trusted"
    assert launch["closure"]["consistency"] == "cooperative"
    file, line, function = launch["python_stack"][-1]  # the line that launches, not Triton's own
    assert file.endswith("target.py") and function == "<module>"
    assert (
        (process.folder.parents[1] / "target.py").read_text().splitlines()[line - 1].startswith("add[(3,)]")
    )
    assert complete["copy_ns"]["pre"] > 0 and complete["copy_ns"]["post"] > 0


def test_every_record_passes_the_checks_of_the_reader(run: Run) -> None:
    process = run(ADD + "x = torch.ones(8); add[(1,)](x, x, x, 8, BLOCK=8)").only
    payloads.convert(process.all(RecordKind.PROCESS)[0], payloads.ProcessRecord, "PROCESS")
    payloads.convert(process.all(RecordKind.SEEN)[0], payloads.SeenRecord, "SEEN")
    payloads.convert(process.launches[0], payloads.LaunchRecord, "LAUNCH")
    payloads.convert(process.completes[0], payloads.CompleteRecord, "COMPLETE")
    payloads.convert(process.all(RecordKind.COUNTS)[-1], payloads.CountsRecord, "COUNTS")
    assert process.all(RecordKind.END)


def test_in_place_keeps_what_was_there_before(run: Run) -> None:
    process = run(
        """
import torch, triton, triton.language as tl
@triton.jit
def scale(x, s, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * s, mask=i < n)
x = torch.tensor([1., 2., 3.])
scale[(1,)](x, 10.0, 3, BLOCK=4)
"""
    ).only
    assert floats(process.pre(0, "x")) == [1, 2, 3]
    assert floats(process.post(0, "x")) == [10, 20, 30]


def test_aliases_and_strides_are_views_of_one_region(run: Run) -> None:
    process = run(
        ADD + "base = torch.arange(64.).reshape(8, 8)\nhalf = base[2:, 1::2]\n"
        "add[(1,)](base, half, half, 0, BLOCK=8)"
    ).only
    launch = process.launches[0]
    assert len(launch["regions"]) == 1 and launch["regions"][0]["size"] == 256
    views = {v["name"]: v for v in launch["views"]}
    assert views["x"]["offset"] == 0 and views["x"]["strides"] == [8, 1]
    assert views["out"] == {**views["y"], "name": "out"}
    assert (views["y"]["offset"], views["y"]["shape"], views["y"]["strides"]) == (68, [6, 4], [8, 2])


def test_overlapping_storages_become_one_region(run: Run) -> None:
    process = run(
        ADD + "a = bytearray(4096)\nx = torch.frombuffer(a, dtype=torch.float32, count=512)\n"
        "y = torch.frombuffer(a, dtype=torch.float32, count=512, offset=1024)\n"
        "add[(1,)](x, y, y, 0, BLOCK=8)"
    ).only
    launch = process.launches[0]
    assert [region["size"] for region in launch["regions"]] == [3072]
    assert [(v["region"], v["offset"]) for v in launch["views"]] == [(0, 0), (0, 1024), (0, 1024)]


def test_zero_chunks_are_holes_and_only_changed_chunks_are_kept(run: Run) -> None:
    count = 5 * CHUNK // 4 + 10
    process = run(
        ADD + f"x = torch.zeros({count}); out = torch.zeros({count}); x[-1] = 3.; x[0] = 1.\n"
        f"add[(1,)](x[-8:], x[-8:], out[-8:], 8, BLOCK=8)"
    ).only
    assert process.completes[0]["chunks"] == [[process.launches[0]["views"][2]["region"], 5]]
    assert floats(process.post(0, "out"))[-1] == 6.0
    pre = process.folder / "0.pre"
    assert pre.stat().st_size >= 2 * count * 4
    assert pre.stat().st_blocks * 512 <= 3 * CHUNK


def test_large_regions_are_written_by_several_threads(run: Run) -> None:
    count = 10 << 20
    process = run(
        ADD + f"x = torch.arange({count}, dtype=torch.int32); o = torch.zeros(4, dtype=torch.int32)\n"
        "add[(1,)](x, x, o, 4, BLOCK=4)\nimport threading\nprint(threading.active_count())"
    ).only
    assert process.pre(0, "x") == np.arange(count, dtype="<i4").tobytes()


def test_empty_and_meta_tensors(run: Run) -> None:
    process = run(
        ADD + "e = torch.empty(0); x = torch.ones(4)\nadd[(1,)](e, x, x, 0, BLOCK=4)\n"
        "try:\n    add[(1,)](torch.empty(4, device='meta'), x, x, 0, BLOCK=4)\nexcept Exception: pass\n",
        kernel="add",
        launch=[0, 2],
    ).only
    assert process.launches[0]["regions"][0]["size"] == 0
    assert any("x is a Tensor on meta" in reason for reason in process.failures)


@first_of("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "int64"])
def test_dtypes(run: Run, dtype: str) -> None:
    process = run(ADD + f"x = torch.ones(16).to(torch.{dtype})\nadd[(1,)](x, x, x, 0, BLOCK=16)").only
    view = process.launches[0]["views"][0]
    assert view["dtype"] == dtype
    assert view["itemsize"] * 16 == process.launches[0]["regions"][0]["size"]


def test_no_values_writes_no_bytes(run: Run) -> None:
    process = run(ADD + "x = torch.ones(8); add[(1,)](x, x, x, 8, BLOCK=8)", no_values=True).only
    assert process.launches[0]["pre"] is None and process.completes[0]["post"] is None
    assert process.launches[0]["closure"]["left_out_bytes"] == 32
    assert not list(process.folder.glob("*.p*"))


def test_memory_that_is_too_large_is_refused_before_anything_is_written(run: Run) -> None:
    process = run(ADD + "x = torch.ones(4096); add[(1,)](x, x, x, 8, BLOCK=8)", max_size=1000).only
    assert not process.launches and not list(process.folder.glob("*.pre"))
    assert "16 KiB, more than --max-size" in process.failures[0] and "float32 [4096]" in process.failures[0]
