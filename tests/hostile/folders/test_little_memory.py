"""Every command in an address space of 150 MiB: it does its work, or one line says that memory is missing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from .commands import ANSWERS, COMMANDS, HEAVY, Place
from .ordinary_user import PYTEST, ROOT

pytestmark = pytest.mark.long
LIMIT = 150 << 20
MISSING = "kerncap: memory: there is not enough; raise the limit (ulimit -v), or free some\n"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != PYTEST])
def test_a_command(name: str, place: Place) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))

    environment = {**os.environ, **place.environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "kerncap", *place.words(COMMANDS[name])], cwd=place.here, env=environment,
        preexec_fn=limited, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    place.nothing_half_written()
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr, done.stderr
    if name == "doctor":  # which says of each thing whether it works
        assert done.returncode in (0, 4)
    elif done.returncode == 4 and name != "profile":
        assert done.stderr == MISSING
    else:
        assert done.returncode == ANSWERS.get(name, 0) and name not in HEAVY, done
