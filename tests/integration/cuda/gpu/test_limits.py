"""Launches that need what their program asked of the context: a deep stack, a large heap."""

from __future__ import annotations

import pytest

from tests.integration.conftest import CommandLine

from .captured import Judge, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]


def test_a_replay_has_the_limits_of_the_program(kerncap_of_module: CommandLine, judge: Judge) -> None:
    captured = capture(kerncap_of_module, build("limits.cu"), options=("-k", "kc_", "--launch", "0:1"))
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    assert len(captured.reproducers) == 2, captured.names()
    for manifest in captured.reproducers.values():
        assert manifest.launch.limits is not None
        assert (manifest.launch.limits.stack_bytes, manifest.launch.limits.heap_bytes) == (
            64 << 10,
            256 << 20,
        )
    judge.prepare(captured.reproducers)
    for path in captured.reproducers:
        judge.agrees(path)
