"""What kernels print: the program's output stays as it is, and the reproducer has the launch's own part."""

from __future__ import annotations

import pytest

from tests.integration.cuda.conftest import Bench
from tests.parameters import first_of

TEXT = "element 0 is 0\nelement 1 is 1\nelement 2 is 2\n"
SECOND = ("-k", "tell", "--launch", "1")


# late: another launch of it before anybody waits. exit: nobody waits, so the output has nothing of it.
@first_of("how", ["late", "exit", "late raw"])
def test_the_output_stays_as_it_is(bench: Bench, how: str) -> None:
    """`capture` checks that it is that of a run without, byte by byte."""
    extra = {"KERNCAP_RIG_PRINTS_RAW": "1"} if "raw" in how else {}
    captured = bench.capture(*SECOND, client=("printing", how.split()[0]), extra=extra)
    assert captured.manifest().oracle.printed == TEXT


# limit: the launch is refused, and made after that.
@first_of("how", ["once", "exit", "once raw", "once limit"])
def test_what_the_driver_s_own_thread_writes_meanwhile_waits(bench: Bench, how: str) -> None:
    """It would come later without the capture, which takes its time."""
    client, options = ("printing", how.split()[0]), ("--max-size", "1") if "limit" in how else ()
    raw = {"KERNCAP_RIG_PRINTS_RAW": "1"} if "raw" in how else {}
    plain = bench.rig.run(*client, extra=raw)
    extra = {**raw, "KERNCAP_RIG_PRINT_THREAD": "limits" if options else "printf"}
    captured = bench.capture(
        *SECOND, *options, client=client, extra=extra, same=False, expect=0 if options else 1
    )
    assert plain.stdout in captured.done.stderr, f"{plain.stdout}---\n{captured.done.stderr}"
    assert options or captured.manifest().oracle.printed == TEXT


def test_text_that_the_ring_may_have_lost_is_not_known(bench: Bench) -> None:
    captured = bench.capture(*SECOND, client=("printing", "ring"))
    assert captured.manifest().oracle.printed is None
    assert TEXT not in captured.done.stderr and TEXT[17:] in captured.done.stderr


@pytest.mark.long
def test_without_a_kernel_that_marks_the_place_the_text_comes_at_once(bench: Bench) -> None:
    captured = bench.capture(
        *SECOND, client=("printing", "once"), extra={"KERNCAP_RIG_NO_HELPERS": "1"}, same=False
    )
    assert captured.manifest().oracle.printed == TEXT
    assert sorted(captured.done.stderr.count(line) for line in TEXT.splitlines()) == [1, 1, 2]


@pytest.mark.long
def test_text_that_another_thread_has_the_driver_write_is_the_launch_s(bench: Bench) -> None:
    captured = bench.capture(*SECOND, client=("printing", "thread"), same=False)
    assert captured.manifest().oracle.printed == TEXT
    lines = captured.done.stderr.splitlines()
    assert [lines.count(line) for line in TEXT.splitlines()] == [2, 1, 1]


@pytest.mark.long
def test_launches_that_are_made_again_print_nothing(bench: Bench) -> None:
    """The output is compared with a run without."""
    bench.capture(*SECOND, "--when", "differs", client=("printing", "again"), expect=None)


def test_a_launch_that_only_prints_is_decided(bench: Bench) -> None:
    captured = bench.capture(*SECOND, client=("printing", "once"))
    document = bench.judge(captured.path)
    assert document["result"] == "pass"
    assert document["summary"] == "it prints what the application printed (3 lines); nothing is written"
    assert "printed      3 lines: element 0 is 0 …" in bench("inspect", captured.path).stdout
