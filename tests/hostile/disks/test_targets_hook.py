"""The Triton hook on disks that fail at the worst moment: the target never notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.format.records import RecordKind
from tests.parameters import first_of
from tests.unit.hook.conftest import ADD, Outcome, Run

from .conftest import Mount

# Every call that can fail is counted from `arm`; the n-th one fails (or is cut short) in its own way.
FAULTS = """
import os
names = ("open", "mkdir", "write", "pwrite", "preadv", "ftruncate", "close")
real = {name: getattr(os, name) for name in names}
left, how = [0], [0]
def faulty(name):
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] != 0 or not Session.thread.busy:
            return real[name](*arguments, **options)
        if how[0] == "short" and name in ("write", "pwrite"):
            return real[name](arguments[0], arguments[1][:7], *arguments[2:])
        if how[0] == "nothing" and name in ("write", "pwrite", "preadv"):
            return 0
        if how[0] == "half" and name in ("write", "pwrite"):
            real[name](arguments[0], arguments[1][: len(arguments[1]) // 2], *arguments[2:])
            raise OSError(28, os.strerror(28))
        if name == "close":
            real[name](*arguments)
        if isinstance(how[0], int):
            raise OSError(how[0], os.strerror(how[0]))
        return real[name](*arguments, **options)
    return call
def arm(kind, number):
    how[0], left[0] = kind, number
"""

EACH_CALL = (
    ADD
    + FAULTS
    + """
import sys
def launch(n=70000):  # some chunks, and regions of zeros that stay holes
    x, y, out = torch.ones(n), torch.arange(n, dtype=torch.float32), torch.zeros(n)
    add[(-(-n // 65536),)](x, y, out, n, BLOCK=65536)
    assert out.sum().item() == (x + y).sum().item()
launch()
Session = sys.modules["kerncap_triton.hook"]._session
for name in real: setattr(os, name, faulty(name))
for kind in KINDS:
    for number in range(1, 200):
        arm(kind, number)
        launch()
        for counters in Session.all_counters(): counters.failures = 0  # else it is left alone after some
        if left[0] > 0:
            break
    else:
        print("never done")
    arm(0, 0)
    launch()
print("done")
"""
)


def whole(outcome: Outcome) -> set[int]:
    """The launches that say they are kept; each of them is there with all that it had, before and after."""
    process = outcome.only
    gone = {r["launch"] for kind in (RecordKind.FAILED, RecordKind.DROPPED) for r in process.all(kind)}
    kept = {r["launch"] for r in process.completes} - gone
    for launch in kept:
        x, y = process.pre(launch, "x"), process.pre(launch, "y")
        assert x == b"\0\0\x80?" * 70000 and y[4:8] == b"\0\0\x80?" and y[-4:] == b"\x80\xb7\x88G", launch
        assert process.pre(launch, "out") == bytes(280000), launch
        assert process.post(launch, "out")[4:8] == b"\0\0\0@", launch
    return kept


@first_of("kinds", [("short", "half", "nothing", 28), (5, 27, 122), (4, 30, 12)])
def test_any_call_may_fail(run: Run, kinds: tuple[object, ...]) -> None:
    outcome = run(EACH_CALL.replace("KINDS", repr(kinds)), kernel="^add$", launch=[0, 100000])
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "done\n", "")
    kept = whole(outcome)
    assert {0, max(r["launch"] for r in outcome.only.launches)} <= kept
    for number in (kind for kind in kinds if isinstance(kind, int)):
        assert any(f"[Errno {number}]" in reason for reason in outcome.only.failures), number
    files = {name.name.split(".")[0] for name in outcome.only.folder.glob("*.p*")}
    assert files <= {str(launch) for launch in kept} | {"nothing"}, "bytes of no launch stay behind"


def test_a_hole_of_a_full_file_system_is_read(run: Run, mount: Mount, tmp_path: Path) -> None:
    """A mapped hole of a tmpfs takes a page to be read: the target died of SIGBUS."""
    mount(tmp_path / "session", 256)
    script = (
        ADD
        + """
import os
folder = os.path.dirname(os.environ["KERNCAP_SESSION"])
opened = os.open
def open_when_full(path, *rest, **options):
    fd = opened(path, *rest, **options)
    if str(path).endswith(".post"):
        filler = opened(folder + "/filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, bytes(4096)): pass
        except OSError: pass
        os.close(filler)
    return fd
os.open = open_when_full
x, out = torch.zeros(1 << 20), torch.zeros(1 << 20)
add[(16,)](x, x, out, 1 << 20, BLOCK=65536)
print(out.sum().item())
"""
    )
    outcome = run(script, kernel="^add$")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "0.0\n", "")


LIMIT = """
import resource, signal
for number in (signal.SIGXFSZ, signal.SIGPIPE): signal.signal(number, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
x, out = torch.ones(COUNT), torch.zeros(COUNT)
for _ in range(3): add[(1,)](x, x, out, COUNT, BLOCK=COUNT)
assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_DFL and not signal.pthread_sigmask(signal.SIG_BLOCK, [])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)  # the test's own stdout is a file
print(out.sum().item())
"""


@pytest.mark.parametrize("when", [None, "differs"])
@first_of("limit", [4096, 0, 1, 4095, 65536, 150000])
def test_the_limit_on_file_sizes_sends_no_signal(run: Run, when: str | None, limit: int) -> None:
    script = ADD + LIMIT.replace("LIMIT,", f"{limit},").replace("COUNT", "32768")
    outcome = run(script, kernel="^add$", launch=[0, 3], when=when, keep_memfds=when is not None)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "65536.0\n", "")


def test_a_session_that_takes_nothing_says_so_by_a_file_without_bytes(
    run: Run, mount: Mount, tmp_path: Path
) -> None:
    mount(tmp_path / "session", 4)  # session.json is all that fits
    outcome = run(
        ADD + "x = torch.ones(8)\nfor _ in range(3): add[(1,)](x, x, x, 8, BLOCK=8)\nprint(x[0].item())\n"
    )
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "8.0\n", "")
    left = sorted(path.name.rpartition("-")[0] for path in (tmp_path / "session").iterdir())
    assert left == ["", "python", "triton", "unwritten-28"], "session.json, and no folder of the process's"


def test_what_a_handler_of_the_target_raises_is_the_targets(run: Run) -> None:
    script = (
        ADD
        + """
import os, signal
class Late(TimeoutError): pass
def ring(number, frame): raise Late("the target's own")
signal.signal(signal.SIGUSR1, ring)
def interrupt(name):
    real = getattr(os, name)
    def call(*arguments, **options):
        setattr(os, name, real)
        os.kill(os.getpid(), signal.SIGUSR1)
        return real(*arguments, **options)
    setattr(os, name, call)
x, out = torch.ones(8), torch.zeros(8)
for name in ("pwrite", "preadv", "ftruncate", "write"):
    interrupt(name)
    try:
        add[(1,)](x, x, out, 8, BLOCK=8)
        print(name, "went on")
    except Late as error:
        print(name, error)
add[(1,)](x, x, out, 8, BLOCK=8)
print(out.sum().item())
"""
    )
    outcome = run(script, kernel="^add$", launch=[0, 100])
    told = "".join(f"{name} the target's own\n" for name in ("pwrite", "preadv", "ftruncate", "write"))
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, told + "16.0\n", "")
    assert outcome.only.completes, "the last launch is kept"


def test_a_failure_of_ours_while_the_target_handles_its_own_is_ours(run: Run) -> None:
    """The exception that the target is just handling is no reason to raise it again."""
    script = (
        ADD
        + """
import os, signal
def ring(number, frame): raise TimeoutError("the target's own")
signal.signal(signal.SIGUSR1, ring)
x, out = torch.ones(8), torch.zeros(8)
def full(*arguments): raise OSError(28, "full")
try:
    os.kill(os.getpid(), signal.SIGUSR1)
    while True: pass
except TimeoutError:
    os.pwrite = full
    add[(1,)](x, x, out, 8, BLOCK=8)
print(out.sum().item())
"""
    )
    outcome = run(script, kernel="^add$")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "16.0\n", "")
    assert any("full" in reason for reason in outcome.only.failures)
