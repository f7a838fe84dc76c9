"""Whole captures with shim, driver and program built for a sanitizer: no race, no stray access."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.cuda.conftest import Rig
from tests.native.building import shims, stand_in

# The command line with another shim: there is no option for it, for no user needs one.
RUN = """
import sys
from pathlib import Path
from kerncap import env
shim = Path(sys.argv.pop(1))
env.cuda_shim = lambda: shim
from kerncap.cli import main
main()
"""

CLIENTS = [
    ("mix", "threads"),
    ("mix", "threads", "own"),
    ("increment", "flag", "before"),
    ("vector_add", "graphs", "captured"),
    ("vector_add", "graphs", "nested"),
    ("vector_add|scale_in_place", "graphs", "changed_after_launch"),
    ("vector_add", "memory_kinds", "pool"),
    ("sum_of_list", "pointers", "list"),
    ("scale_in_place", "failures", "some_copies", "2"),
    ("scale_in_place", "processes", "fork"),
]


@dataclass(frozen=True)
class Instrumented:
    rig: Rig
    shim: Path


@pytest.fixture(scope="session", params=["thread", "address"])
def instrumented(request: pytest.FixtureRequest) -> Instrumented:
    library = shims("kerncap_cuda", request.param) / "cuda/libkerncap_cuda.so"
    return Instrumented(Rig(stand_in(request.param)), library)


@pytest.mark.sanitized
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: "-".join(client[1:]))
def test_a_capture_under_a_sanitizer(
    kerncap: CommandLine, instrumented: Instrumented, client: tuple[str, ...]
) -> None:
    kernel, name, *arguments = client
    program = instrumented.rig.client(name)
    plain = instrumented.rig.run(name, *arguments, extra=QUIET)
    assert plain.status == 0, plain.stderr[-3000:]
    done = subprocess.run(
        [
            *(sys.executable, "-c", RUN, str(instrumented.shim)),
            *("capture", "--json", "--no-self-check", "-o", "out", "-k", kernel),
            *("--", str(program), *arguments),
        ],
        cwd=kerncap.folder,
        env=kerncap.environment(instrumented.rig.environment(QUIET)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Sanitizer" not in done.stderr, done.stderr[-6000:]
    document = json.loads(done.stdout)
    assert document["target_status"] == 0, done.stderr[-3000:]
    assert plain.stdout in done.stderr
    assert document["captured"] or document["failed"], done.stderr


# What the driver leaves at the end it leaves on purpose. The preloaded shim brings the sanitizer's own
# library with it, behind its own place.
QUIET = {
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=66",
}
