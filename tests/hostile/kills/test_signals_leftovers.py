"""A command that a signal ends: one line, 128 + n, nothing left; after SIGKILL the next one removes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden/v1.2"
STOPPED = Path(__file__).with_name("stopped.py")


@dataclass(frozen=True)
class Moment:
    """A command, and the call in which it is stopped."""

    command: str
    call: str

    def __str__(self) -> str:
        return f"{self.command.split()[0]}-{self.call.rpartition(':')[2]}"


PACK = "pack repro -o out/a.zip"
REPORT = "report repro -o out/a.html"
EXPORT = "export repro --as pytest -o out/project"
UNPACK = "unpack repro.zip -o out"
MOMENTS = [
    Moment(PACK, "kerncap.format.archive.pack:_write"),
    Moment(PACK, "os:fsync"),
    Moment(PACK, "kerncap.scratch:Scratch.name"),
    Moment(PACK, "kerncap.format.reader:Reproducer.verify_files"),
    Moment(UNPACK, "kerncap.format.archive.unpack:_Archive.extract"),
    Moment(UNPACK, "kerncap.format.reader:Reproducer.verify_files"),
    Moment(UNPACK, "kerncap.scratch:Scratch.name"),
    Moment(REPORT, "kerncap.report.html:render"),
    Moment(REPORT, "os:fsync"),
    Moment(EXPORT, "kerncap.api.export:make_project"),
    Moment(EXPORT, "kerncap.scratch:Scratch.name"),
    Moment("inspect repro", "kerncap.format.reader:Reproducer.open"),
    Moment("replay repro --trust", "kerncap.replay.staging:_write_files"),
    Moment("verify repro --trust", "kerncap.replay.nursery:Forked.__init__"),
    Moment("minimize repro --trust -o out", "kerncap.replay.staging:_write_files"),
    Moment("diff repro repro.zip", "kerncap.format.archive.unpack:_Archive.extract"),
]
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Place:
    """A working folder with a reproducer and its archive; every place where something could be left."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.root / "tmp"), "XDG_CONFIG_HOME": str(self.root / "config")}
        own["XDG_CACHE_HOME"] = str(self.root / "cache")
        return {**os.environ, **own, "PYTHONPATH": str(ROOT)}

    def left(self) -> set[str]:
        """What is there now, and in shared memory what began meanwhile and belongs to nobody."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    def start(self, moment: Moment, before: str = "") -> subprocess.Popen[str]:
        """The command, stopped in its moment."""
        module, _, attribute = moment.call.partition(":")
        came, told = os.pipe()
        words = [sys.executable, str(STOPPED), module, attribute, str(told), *moment.command.split()]
        process = subprocess.Popen(
            [*before.split(), *words], cwd=self.root, env=self.environment, pass_fds=(told,),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(told)
        with open(came, "rb") as file:
            assert file.read(1) == b"!", process.communicate()
        return process


@pytest.fixture(autouse=True)
def signals_of_a_terminal() -> Iterator[None]:
    """A run in the background of a script ignores some signals, and so would all that it starts."""
    ignored = [n for n in (signal.SIGHUP, signal.SIGINT) if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from kerncap.api import pack

    target = tmp_path_factory.mktemp("archive") / "repro.zip"
    pack(GOLDEN, target)
    return target


@pytest.fixture
def place(tmp_path: Path, archive: Path) -> Place:
    shutil.copytree(GOLDEN, tmp_path / "repro")
    shutil.copy(archive, tmp_path)
    for name in ("tmp", "out", "config", "cache"):
        (tmp_path / name).mkdir()
    return Place(tmp_path)


def shared_memory(pid: int) -> list[Path]:
    """Job folders in shared memory that a process holds open."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            target = Path(os.readlink(fd))
            if target.parent == Path("/dev/shm"):
                found.append(target)
    return found


def cases() -> list[object]:
    found: list[object] = []
    for moment in MOMENTS:
        for number in SIGNALS:
            short = number == signal.SIGTERM and moment.call.endswith(("_write", "extract", "_write_files"))
            marks = () if short else (pytest.mark.long,)
            found.append(pytest.param(moment, number, marks=marks, id=f"{moment}-{number.name}"))
    return found


@pytest.mark.parametrize(("moment", "number"), cases())
def test_a_signal_ends_it_in_order(place: Place, moment: Moment, number: signal.Signals) -> None:
    before = place.left()
    process = place.start(moment)
    held = shared_memory(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number, err
    told = "interrupted" if number == signal.SIGINT else f"interrupted by {number.name}"
    assert err.splitlines()[-1:] == [f"kerncap: {told}"]
    assert "Traceback" not in err + out
    assert place.left() - before <= {"config/kerncap", "config/kerncap/trusted"}
    assert not any(path.exists() for path in held)


KILLED = [
    pytest.param(each, marks=() if str(each) == "pack-Scratch.name" else (pytest.mark.long,), id=str(each))
    for each in MOMENTS
    if "Reproducer.open" not in each.call and "pack-Reproducer.verify" not in str(each)
]  # fmt: skip


@pytest.mark.parametrize("moment", KILLED)
def test_what_sigkill_leaves_the_next_one_removes(place: Place, moment: Moment) -> None:
    process = place.start(moment)
    held = shared_memory(process.pid)
    process.kill()
    process.communicate(timeout=60)
    subprocess.run(
        [sys.executable, "-m", "kerncap", *moment.command.split()], cwd=place.root, env=place.environment,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
    )  # fmt: skip
    assert not [name for name in place.left() if "kerncap-" in name or ".tmp-" in name]
    assert not any(path.exists() for path in held)


def test_an_ignored_hangup_stays_ignored(place: Place) -> None:
    process = place.start(MOMENTS[0], before="nohup")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert "SIGHUP" not in err


def test_a_signal_that_comes_twice_is_one(place: Place) -> None:
    """`timeout` sends it to the process and to its group."""
    process = place.start(MOMENTS[0], before="timeout 300")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert err.count("interrupted") == 1 and err.endswith("kerncap: interrupted by SIGTERM\n")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.long) for each in SIGNALS[1:])]
)
def test_a_program_under_capture_gets_the_signal(place: Place, number: signal.Signals) -> None:
    os.mkfifo(place.root / "up")
    before = place.left()
    words = [sys.executable, "-m", "kerncap", "capture", "-o", "captured", "--"]
    process = subprocess.Popen(
        [*words, "sh", "-c", "echo > up; exec sleep 300"], cwd=place.root, env=place.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    (place.root / "up").read_text()
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert f"the target was killed by {number.name}" in err and "Traceback" not in err
    assert place.left() == before
