"""Bytes that wait in memory under a memory limit: past it the kernel would end the target."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hook.conftest import ADD, Run

LIMIT = 300 << 20


@pytest.fixture
def group() -> Iterator[Path]:
    """The file to join a memory cgroup by that has LIMIT bytes. Skips where none can be made."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            parent, limit = Path(f"/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"
        elif number == "0":
            parent, limit = Path(f"/sys/fs/cgroup{path}"), "memory.max"
        else:
            continue
        folder = parent / f"kerncap-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if not (folder / limit).exists():
                continue
            (folder / limit).write_text(str(LIMIT))
            yield folder / "cgroup.procs"
            return
        finally:
            with contextlib.suppress(OSError):
                folder.rmdir()
    pytest.skip("no memory cgroup can be made here")


TARGET = """
import os
open("GROUP", "w").write(str(os.getpid()))
n = 20 << 20
x, out = torch.ones(n), torch.zeros(n)
add[(1,)](x, x, out, n, BLOCK=65536)
print(out.sum().item())
"""


def test_a_state_that_does_not_fit_is_not_written(run: Run, group: Path) -> None:
    """80 MiB of ones and 80 MiB of zeros are the target's; a copy of them is one too many."""
    script = ADD + TARGET.replace("GROUP", str(group))
    outcome = run(script, kernel="^add$", when="differs", keep_memfds=True)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "131072.0\n", "")
    assert not outcome.only.completes
    assert any("Cannot allocate memory" in reason for reason in outcome.only.failures)
