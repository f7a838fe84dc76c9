"""Function pointers, virtual tables, and kernels that launch kernels.

In a program of one compilation a function's address is a number; if its objects are linked, it is where the
driver put the code, and the words that hold it are others in a replay.
"""

from __future__ import annotations

import pytest

from tests.integration.conftest import CommandLine

from .captured import Captured, Judge, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

_KERNELS = ("kc_table", "kc_constant", "kc_passed", "kc_take", "kc_stored", "kc_make", "kc_virtual")
_LINKED = ("-rdc=true", "-DLAUNCHES_ON_DEVICE")


@pytest.fixture(scope="module")
def programs(kerncap_of_module: CommandLine, judge: Judge) -> dict[str, Captured]:
    made = {}
    for name, options in (("whole", ()), ("linked", _LINKED)):
        program = build("indirect.cu", options=options)
        made[name] = capture(kerncap_of_module, program, options=("-k", "kc_", "--launch", "0:1"))
    judge.prepare(path for captured in made.values() for path in captured.reproducers)
    return made


def test_the_programs_notice_nothing(programs: dict[str, Captured]) -> None:
    for captured in programs.values():
        captured.target_is_unchanged()
        assert captured.plain.status == 0, captured.plain.stderr


@pytest.mark.parametrize("kernel", _KERNELS)
def test_a_program_of_one_compilation(programs: dict[str, Captured], judge: Judge, kernel: str) -> None:
    [done] = judge.ask(("verify", "--json", str(programs["whole"].one(kernel))))
    assert done.status == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kernel", [*_KERNELS, "kc_parent"])
def test_a_program_that_was_linked(programs: dict[str, Captured], judge: Judge, kernel: str) -> None:
    [done] = judge.ask(("verify", "--json", str(programs["linked"].one(kernel))))
    assert done.status == 0, done.stdout + done.stderr
    assert done.document["exact"], done.stdout
