"""What kernels print: the program's output stays as it is, and each launch has its own part."""

from __future__ import annotations

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

from .captured import Captured, Judge, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

KERNELS = ("-k", "kc_say|kc_much|kc_nothing", "--launch", "0:4")


@pytest.fixture(scope="module")
def printing(kerncap_of_module: CommandLine) -> Captured:
    return capture(kerncap_of_module, build("printing.cu"), options=KERNELS)


def test_the_output_stays_as_it_is(printing: Captured) -> None:
    """Line by line, between what the host prints."""
    printing.target_is_unchanged()
    assert printing.plain.stdout.count("and no end, ") == 3


def test_what_nobody_waits_for_is_not_printed(kerncap_of_module: CommandLine) -> None:
    """As without kerncap."""
    left = capture(kerncap_of_module, build("printing.cu"), "exit", options=("-k", "kc_say", "--launch", "2"))
    left.target_is_unchanged()
    [path] = left.reproducers
    with Reproducer.open(path) as reproducer:
        assert (reproducer.manifest.oracle.printed or "").count("\n") == 2


@pytest.mark.parametrize("ordinal, lines", [(0, 1), (1, 3), (2, 2)])
def test_each_launch_has_its_own_part(printing: Captured, judge: Judge, ordinal: int, lines: int) -> None:
    path = printing.one("kc_say", ordinal=ordinal)
    printed = printing.reproducers[path].oracle.printed
    assert printed is not None and printed.count("\n") == lines and printed.endswith("\nand no end, ")
    assert printed in printing.plain.stdout
    [done] = judge.ask(("verify", "--json", str(path)))
    assert done.status == 0, done.stdout + done.stderr
    assert done.document["summary"].startswith("it prints what the application printed")


def test_more_than_the_ring_surely_keeps_is_not_known(printing: Captured) -> None:
    for name in ("kc_much", "kc_nothing"):
        assert printing.reproducers[printing.one(name)].oracle.printed is None
