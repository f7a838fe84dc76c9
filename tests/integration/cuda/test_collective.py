"""Launches that all ranks of a job make together: each is a process, on the stand-in driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer
from tests.integration.cuda.collective import by_rank, check_windows
from tests.integration.cuda.conftest import Bench, Captured
from tests.parameters import first_of

TWO_DEVICES = {"KERNCAP_RIG_DEVICES": "2"}


def captured_together(
    bench: Bench, what: str, *options: str, ranks: int = 3, way: str = "vmm", expect: int | None = None
) -> Captured:
    kernel = {"reduce": "reduce", "ring": "ring", "twice": "meet_twice", "turns": "take_turns"}.get(
        what, "sum_of_windows"
    )
    return bench.capture(
        "--collective", str(ranks), "-k", kernel, *options,
        client=("ranks", str(ranks), what, way), extra=TWO_DEVICES,
        expect=ranks if expect is None else expect,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["vmm", "ipc"])
def test_eight_ranks_that_wait_for_each_other(bench: Bench, way: str) -> None:
    paths = by_rank(captured_together(bench, "reduce", ranks=8, way=way).paths)
    assert check_windows(paths) == 8 * 7


def test_a_put_into_memory_that_its_owner_gives_away(bench: Bench) -> None:
    paths = by_rank(captured_together(bench, "ring", "--launch", "1").paths)
    assert check_windows(paths) == 3


def test_a_rank_that_does_not_come_is_not_waited_for_forever(bench: Bench) -> None:
    """Nor does it wait for those that have gone on; the next launch can be captured."""
    captured = bench.capture(
        "--collective", "3", "-k", "sum_of_windows", "--collective-timeout", "2",
        client=("ranks", "3", "alone"), extra=TWO_DEVICES, expect=None,
    )  # fmt: skip
    assert len(captured.paths) in (0, 3)  # on a busy machine a rank may be late there, too
    assert all(captured.manifest(path).launch.ordinal == 1 for path in captured.paths)
    failed = captured.document["failed"]
    assert len(failed) >= 3 and any("did not come to this launch in time" in each for each in failed), failed


@pytest.mark.parametrize("what", ["leaves", "dies"])
def test_a_rank_that_is_killed_leaves_no_half_of_a_launch(bench: Bench, what: str) -> None:
    captured = captured_together(bench, what, "--launch", "0:2", expect=3 if what == "leaves" else 0)
    ordinals = {captured.manifest(path).launch.ordinal for path in captured.paths}
    assert ordinals == ({0} if what == "leaves" else set())
    failed = " ".join(captured.document["failed"])
    assert "rank 1 ended before the collective launch did" in failed


def test_more_processes_than_ranks(bench: Bench) -> None:
    captured = bench.capture(
        "--collective", "2", "-k", "sum_of_windows", "--launch", "0", client=("ranks", "3", "sum"), expect=2
    )
    assert any("this process is rank 2 of --collective 2" in each for each in captured.document["failed"])


@pytest.mark.long
def test_kernels_that_do_not_fit_on_a_device_at_once(bench: Bench) -> None:
    """Without MPS processes take turns, and with it kernels that fit run at once."""
    paths = by_rank(captured_together(bench, "reduce", "--launch", "0", ranks=4).paths)
    crowded = {**TWO_DEVICES, "KERNCAP_RIG_PROCESSORS": "2"}  # of 8 blocks, of which two ranks have 24
    for extra, status in ((crowded, 0), ({**TWO_DEVICES, "KERNCAP_RIG_MPS": "1"}, 0)):
        done = bench("verify", "--together", "--timeout", "20", *paths, extra=extra)
        assert done.status == status, done.stderr
    done = bench("verify", "--together", *paths, extra={**crowded, "KERNCAP_RIG_MPS": "1"})
    assert done.status == 5, done.stderr
    assert "the kernels of 2 ranks need 1.5 times its multiprocessors at once" in done.stderr, done.stderr


RING = "_Z4ringPfS_S_ii", "mine, next, out", "n, round"
REDUCE = "_Z6reducePPfPfiiiii", "windows, out", "rank, ranks, n, round, kills"


def candidate(bench: Bench, edition: int, kernel: tuple[str, str, str] = RING) -> Path:
    name, pointers, numbers = kernel
    path = bench.kerncap.folder / f"{name}{edition}.ptx"
    parameters = [f".param .u64 {each}" for each in pointers.split(", ")]
    parameters += [f".param .u32 {each}" for each in numbers.split(", ")]
    path.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        f".visible .global .align 4 .u32 rig_variant = {edition};\n"
        f".visible .entry {name}({', '.join(parameters)})\n{{\n ret;\n}}\n"
    )
    return path


def together(bench: Bench, paths: list[Path], *options: str | Path) -> dict[str, Any]:
    done = bench("verify", "--together", "--json", "--timeout", "5", *options, *paths, extra=TWO_DEVICES)
    return done.judged


@first_of(("ranks", "way"), [(4, "vmm"), (8, "vmm"), (8, "ipc")])
def test_ranks_replay_together_and_each_alone(bench: Bench, ranks: int, way: str) -> None:
    paths = by_rank(captured_together(bench, "reduce", ranks=ranks, way=way).paths)
    document = together(bench, paths)
    assert document["result"] == "pass", document
    assert document["exact"] and document["poisoned_bytes"] == ranks * 12000
    check_alone(bench, paths[3])


def check_alone(bench: Bench, path: Path, *options: str) -> None:
    document = bench.judge(path, "--timeout", "20", *options, extra=TWO_DEVICES)
    assert document["result"] == "pass" and document["exact"], document
    assert any("other ranks store" in note for note in document["notes"]), document


def test_a_ring_step_of_one_rank_alone(bench: Bench) -> None:
    """Some candidates leave what the captured kernel does; no other rank is there to see when they do it."""
    paths = by_rank(captured_together(bench, "ring", "--launch", "1").paths)
    for path in paths:
        check_alone(bench, path)
    # What does not wait is seen to if it comes before the values, as it does on a machine that is not busy.
    expected = {0: ["undecided"], 1: ["undecided"], 2: ["undecided"], 3: ["fail"], 4: ["fail", "undecided"]}
    for edition, results in expected.items():
        options = ("--candidate", candidate(bench, edition), "--timeout", "20")
        document = bench.judge(paths[0], *options, extra=TWO_DEVICES)
        assert document["result"] in results, (edition, document)
        assert (edition == 1) == ("small as flags are" in document["summary"])
        if edition in (0, 2):
            assert "kerncap verify --together, with all 3 ranks, would decide" in document["summary"]


def test_a_candidate_alone_that_waits_for_nobody(bench: Bench) -> None:
    path = by_rank(captured_together(bench, "reduce", "--launch", "0").paths)[1]
    check_alone(bench, path)
    document = bench.judge(path, "--candidate", candidate(bench, 2, REDUCE), extra=TWO_DEVICES)
    assert document["result"] == "undecided", document


@pytest.mark.long
def test_signals_that_are_taken_back(bench: Bench) -> None:
    """What a rank gives to others while it waits, the others are taken to give to it."""
    paths = by_rank(captured_together(bench, "turns", "--launch", "1").paths)
    assert together(bench, paths)["result"] == "pass"
    for path in paths:
        check_alone(bench, path)
        document = bench.judge(path, "--timeout", "20", extra=TWO_DEVICES)
        assert any("taken back and given to it" in note for note in document["notes"]), document
    kernel = "_Z10take_turnsPPfPfiiiii", *REDUCE[1:]
    document = bench.judge(paths[0], "--candidate", candidate(bench, 1, kernel), extra=TWO_DEVICES)
    assert document["result"] == "undecided", document


@pytest.mark.long
def test_a_value_between_those_that_are_known_is_not_waited_for_in_vain(bench: Bench) -> None:
    paths = by_rank(captured_together(bench, "twice", "--launch", "0").paths)
    assert together(bench, paths)["result"] == "pass"
    document = bench.judge(paths[2], "--timeout", "2", extra=TWO_DEVICES)
    assert document["result"] == "undecided", document
    assert any("an earlier value of a flag" in reason for reason in document["reasons"]), document


@pytest.mark.long
def test_candidates_are_judged_in_all_ranks(bench: Bench) -> None:
    paths = by_rank(captured_together(bench, "ring", "--launch", "1").paths)
    assert together(bench, paths)["result"] == "pass"
    assert together(bench, paths, "--candidate", candidate(bench, 0))["result"] == "pass"
    hangs = together(bench, paths, "--candidate", candidate(bench, 1))
    assert hangs["result"] == "undecided" and "did not end within 5 s" in hangs["summary"], hangs
    assert any("the captured kernels of all ranks ended in" in note for note in hangs["notes"]), hangs
    for edition in (2, 3):  # the flag before the values; values in another place
        wrong = together(bench, paths, "--candidate", candidate(bench, edition))
        assert wrong["result"] == "fail" and "rank0.arg2" in str(wrong["reasons"]), wrong


def test_the_self_check_runs_the_ranks_together(bench: Bench) -> None:
    captured = bench.capture(
        "--collective", "2", "-k", "reduce", "--self-check-timeout", "240", client=("ranks", "2", "reduce"),
        extra=TWO_DEVICES, expect=2, self_check=True,
    )  # fmt: skip
    for path in captured.paths:
        with Reproducer.open(path) as reproducer:
            checks = reproducer.checks()
        assert checks is not None and checks.self_check is not None
        assert (checks.self_check.result, checks.self_check.engine) == ("pass", "binary"), checks


def test_each_rank_can_be_packed_by_itself(bench: Bench) -> None:
    paths = by_rank(captured_together(bench, "ring", "--launch", "1", ranks=2).paths)
    unpacked = []
    for rank, path in enumerate(paths):
        packed = bench("pack", path, "-o", f"rank{rank}.kcap", extra=TWO_DEVICES)
        assert packed.status == 0, packed.stderr
        folder = bench.kerncap.folder / f"from{rank}"
        folder.mkdir()
        done = bench("unpack", f"rank{rank}.kcap", "-o", folder, extra=TWO_DEVICES)
        assert done.status == 0, done.stderr
        unpacked += [each.parent for each in folder.rglob("manifest.json")]
    assert len(unpacked) == 2
    assert together(bench, unpacked, "--trust")["result"] == "pass"
    check_alone(bench, unpacked[0], "--trust")


def test_what_can_not_be_replayed_together(bench: Bench) -> None:
    captured = captured_together(bench, "ring", "--launch", "0:2", expect=6)
    of_launch = [[p for p in captured.paths if captured.manifest(p).launch.ordinal == n] for n in (0, 1)]
    first, second = map(by_rank, of_launch)
    for given, problem in (
        (first[:2], "one of 3 ranks; give rank 2 too"),
        ([first[0], second[1], first[2]], "of another launch"),
    ):
        done = bench("verify", "--together", *given, extra=TWO_DEVICES)
        assert done.status == 2 and problem in done.stderr, done.stderr
