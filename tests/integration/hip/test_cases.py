"""Cases that users would try first (numbered as in docs/support.md) on an AMD GPU, those of no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from tests.parameters import first_of

from .conftest import Bench, Captured, Programs, fnv, post_of


@pytest.fixture(scope="module")
def cases(programs: Programs) -> Path:
    return programs("cases")


@pytest.fixture(scope="module")
def whole(shared_bench: Bench, cases: Path) -> Captured:
    """Every launch of every kernel, in one run."""
    return shared_bench.capture(
        "--launch", "0:9", "-o", "out-cases", program=(cases, "launches"), expect=None
    )


def one(run: Captured, kernel: str, ordinal: int = 0) -> tuple[Path, Manifest]:
    """The reproducer of one launch of a kernel."""
    [found] = [
        (path, manifest)
        for path, manifest in run.manifests().items()
        if manifest.kernel.name == kernel and manifest.launch.ordinal == ordinal
    ]
    return found


def holds(bench: Bench, run: Captured, kernel: str, launch: str, ordinal: int = 0) -> tuple[Path, Manifest]:
    """The oracle is what the program printed, and a replay agrees."""
    path, manifest = one(run, kernel, ordinal)
    output = run.outputs()[launch]
    assert fnv(post_of(path, output)) == output.hash
    document = bench.judge(path, command="replay")
    assert document["result"] == "pass" and document["placement"]["relocated"] == [], document
    return path, manifest


@pytest.mark.long
def test_case_09_the_nth_launch_by_an_exact_name(bench: Bench, cases: Path) -> None:
    run = bench.capture("-k", "^advance$", "--launch", "2", program=(cases, "launches"))
    _, manifest = holds(bench, run, "advance", "advance_2", 2)
    assert manifest.launch.ordinal == 2


@pytest.mark.long
def test_case_09_each_of_several(shared_bench: Bench, whole: Captured) -> None:
    for step in range(4):
        path, _ = one(whole, "advance", step)
        output = whole.outputs()[f"advance_{step}"]
        assert fnv(post_of(path, output)) == output.hash


def test_case_10_a_lambda(shared_bench: Bench, whole: Captured) -> None:
    """What it captures is a parameter, and the pointer in it is followed."""
    _, manifest = holds(shared_bench, whole, "apply", "lambda")
    assert len([region for region in manifest.regions if region.kind == "device"]) == 2
    assert "lambda" in manifest.kernel.qualified_name


def test_case_11_launch_bounds(shared_bench: Bench, whole: Captured) -> None:
    _, manifest = holds(shared_bench, whole, "bounded", "bounded")
    assert manifest.launch.block == (64, 1, 1)


@first_of("ordinal", [1, 0])
def test_case_12_no_arguments(shared_bench: Bench, whole: Captured, ordinal: int) -> None:
    path, manifest = holds(shared_bench, whole, "tick", f"tick_{ordinal}", ordinal)
    assert manifest.arguments == ()
    with Reproducer.open(path) as reproducer:
        total = next(i for i, region in enumerate(manifest.regions) if region.name == "total")
        before = int.from_bytes(reproducer.read("pre", total, 0, 4), "little")
        after = int.from_bytes(reproducer.read("post", total, 0, 4), "little")
    assert (before, after) == ((5, 17), (17, 53))[ordinal]


@pytest.mark.long
def test_case_18_a_used_folder_keeps_what_it_has(bench: Bench, cases: Path) -> None:
    words = (
        "-k",
        "^bounded$",
        "--no-self-check",
        "-o",
        "out",
        "--",
        *bench.rig.run_prefix,
        cases,
        "launches",
    )
    first = bench("capture", "--json", *words)
    [kept] = [bench.kerncap.folder / path for path in first.document["captured"]]
    (kept / "mine.txt").write_text("a note")
    again = bench("capture", "--json", *words)
    assert again.status == 0 and (kept / "mine.txt").read_text() == "a note"
    assert len(again.document["captured"]) == 1


def test_case_19_a_program_that_fails_is_no_success(bench: Bench, cases: Path) -> None:
    done = bench("capture", "--json", "-k", "^bounded$", "--", *bench.rig.run_prefix, cases, "nonsense")
    assert done.status == 2 and done.document["captured"] == [] and done.document["target_status"] == 2
    assert done.document["reason"]


@pytest.mark.long
def test_case_20_a_child_in_a_session_of_its_own(bench: Bench, cases: Path) -> None:
    run = bench.capture("-k", "^bounded$", program=(cases, "spawn"))
    holds(bench, run, "bounded", "bounded")


def test_case_21_a_snapshot_between_two_streams(shared_bench: Bench, whole: Captured) -> None:
    path, manifest = holds(shared_bench, whole, "reader", "reader")
    with Reproducer.open(path) as reproducer:
        view = next(view for view in manifest.views if view.name == "arg0")
        words = reproducer.read("pre", view.region, view.offset, 800)
    assert words == (40).to_bytes(4, "little") * 200  # neither the 7 before nor the 90 after


@first_of("round_", [1, 0])
def test_case_23_memory_of_a_streams_pool(shared_bench: Bench, whole: Captured, round_: int) -> None:
    holds(shared_bench, whole, "pooled", f"pooled_{round_}", round_)


def test_case_30_a_truncated_chunk_is_named(shared_bench: Bench, whole: Captured, tmp_path: Path) -> None:
    path, _ = one(whole, "bounded")
    damaged = tmp_path / path.name
    for file in path.rglob("*"):
        if file.is_file():
            target = damaged / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    chunks = damaged / "memory" / "chunks"
    chunks.write_bytes(chunks.read_bytes()[:-7])
    done = shared_bench("replay", damaged, "--emulator", shared_bench.rig.folder)
    assert done.status == 3 and "chunks" in done.stderr and len(done.stderr.strip().splitlines()) == 1
