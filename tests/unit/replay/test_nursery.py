"""Workers that are forks of a process which has loaded what they need, and engines that are kept."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kerncap import child
from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.replay import choose_engine as choosing
from kerncap.replay.candidates import triton_image
from kerncap.replay.choose_engine import Choice, choose
from kerncap.replay.connection import started_as
from kerncap.replay.engine import Engine
from kerncap.replay.nursery import Nursery
from kerncap.replay.outcome import CandidateError, Loaded
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.worker.protocol import Backend
from kerncap.replay.worker_process import WorkerKilled

from . import native

pytestmark = pytest.mark.usefixtures("stand_in", "own_nurseries")
CHOICE = Choice(sys.executable, "native", "cuda", 0)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    python, environment, prefix = started_as(CHOICE)
    found = Nursery(python, environment, "cuda", prefix)
    yield found
    found.close()


def pid_of(engine: Engine) -> int:
    worker = engine.connection._worker
    assert worker is not None
    return worker._process.pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def forks_of(pid: int) -> list[int]:
    """Its children that lead a group: importing cuda.bindings starts ldconfig, which leads none."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [each for each in children if group_of(each) == each]


def group_of(pid: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid)
    return 0


def ended(pidfd: int) -> None:
    """Wait until it has; the test's own limit ends one that never does."""
    select.select([pidfd], [], [])
    os.close(pidfd)


def test_each_engine_is_a_fork_that_ends_with_it(tmp_path: Path, nursery: Nursery) -> None:
    path = native.add().seal(tmp_path)
    seen = set()
    for _ in range(3):
        with Reproducer.open(path) as reproducer:
            with Engine(reproducer, choice=CHOICE, shared=Pool(begun=nursery)) as engine:
                pid = pid_of(engine)
                assert parent_of(pid) == nursery.pid
                assert os.getpgid(pid) == pid
                assert os.readlink(f"/proc/{pid}/cwd") == str(engine.connection.job.folder)
                engine.restore()
                assert engine.launch().ok and engine.differing("post") == []
                seen.add(pid)
            assert not Path(f"/proc/{pid}").exists()
    assert len(seen) == 3


@pytest.mark.parametrize("lives", [True, False])
def test_the_first_fork_begins_before_there_is_a_job(tmp_path: Path, lives: bool) -> None:
    path = native.add().seal(tmp_path)
    python, environment, prefix = started_as(CHOICE)
    nursery = Nursery(python, environment, "cuda", prefix, begin=True)
    try:
        while not (forks := forks_of(nursery.pid)):
            os.sched_yield()
        [begun] = forks
        if not lives:
            gone = os.pidfd_open(begun)
            os.kill(begun, signal.SIGKILL)
            ended(gone)
        seen = []
        for _ in range(2):
            with (
                Reproducer.open(path) as reproducer,
                Engine(reproducer, choice=CHOICE, shared=Pool(begun=nursery)) as engine,
            ):
                seen.append(pid_of(engine))
                assert parent_of(seen[-1]) == nursery.pid and os.getpgid(seen[-1]) == seen[-1]
                engine.restore()
                assert engine.launch().ok and engine.differing("post") == []
        assert (begun in seen) is lives and len(set(seen)) == 2
    finally:
        nursery.close()


DRIVER = """
import ctypes
from kerncap.replay.worker import nursery
nursery._start_driver(nursery._load_bindings())
active = ctypes.c_int(-1)
state = ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState
status = state(0, ctypes.byref(ctypes.c_uint()), ctypes.byref(active))
print(status, active.value)
"""


@pytest.mark.parametrize(("devices", "said"), [(1, "0 1"), (2, "0 0"), (0, "3 -1")])
def test_the_driver_is_started_with_the_context_of_an_only_device(
    monkeypatch: pytest.MonkeyPatch, devices: int, said: str
) -> None:
    monkeypatch.setenv("KERNCAP_RIG_DEVICES", str(devices))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], env=child.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == said


def test_a_nursery_that_has_begun_ends_if_another_is_wanted(
    tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pool(begun=nursery) as pool, Reproducer.open(native.add().seal(tmp_path)) as reproducer:
        pool.begin(reproducer.manifest, Asked())
        assert nursery.is_alive
        monkeypatch.setattr(Pool, "nursery", lambda *_: None)
        pool.begin(reproducer.manifest, Asked())
        assert not nursery.is_alive


def test_a_worker_is_idle_once_it_has_answered(tmp_path: Path, nursery: Nursery) -> None:
    with (
        Reproducer.open(native.add().seal(tmp_path)) as reproducer,
        Engine(reproducer, choice=CHOICE, shared=Pool(begun=nursery)) as engine,
    ):
        assert engine.connection.is_idle
        gone = os.pidfd_open(pid_of(engine))
        os.kill(pid_of(engine), signal.SIGKILL)
        ended(gone)
        worker = engine.connection._worker
        assert worker is not None
        with pytest.raises(WorkerKilled):
            worker.request(60.0, Backend.restore, "pre")
        assert not engine.connection.is_idle


def test_a_worker_that_is_killed_is_replaced_and_harms_no_other(tmp_path: Path, nursery: Nursery) -> None:
    one, other = native.add().seal(tmp_path / "one"), native.scale().seal(tmp_path / "other")
    with (
        Reproducer.open(one) as first, Reproducer.open(other) as second,
        Engine(first, choice=CHOICE, shared=Pool(begun=nursery)) as engine,
        Engine(second, choice=CHOICE, shared=Pool(begun=nursery)) as unharmed,
    ):  # fmt: skip
        before = pid_of(unharmed)
        gone = os.pidfd_open(pid_of(engine))
        os.kill(pid_of(engine), signal.SIGKILL)
        ended(gone)
        engine.restore()
        assert engine.generation == 2 and parent_of(pid_of(engine)) == nursery.pid
        assert engine.launch().ok and engine.differing("post") == []
        unharmed.restore()
        assert unharmed.launch().ok and unharmed.differing("post") == []
        assert pid_of(unharmed) == before and unharmed.generation == 1


def test_an_engine_lives_on_without_its_nursery(tmp_path: Path, nursery: Nursery) -> None:
    path = native.add().seal(tmp_path)
    with (
        Reproducer.open(path) as reproducer,
        Engine(reproducer, choice=CHOICE, shared=Pool(begun=nursery)) as engine,
    ):
        nursery.close()
        engine.restore()
        assert engine.launch().ok
        gone = os.pidfd_open(pid_of(engine))
        os.kill(pid_of(engine), signal.SIGKILL)
        ended(gone)
        engine.restore()  # in a process that was started
        assert engine.launch().ok and parent_of(pid_of(engine)) == os.getpid()


OWNER = """
import sys
from pathlib import Path
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.replay.engine import Engine
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.worker.protocol import Backend
from kerncap.replay.worker_process import WorkerKilled

with Pool() as pool, Reproducer.open(Path(sys.argv[1])) as reproducer:
    engine = Engine(reproducer, shared=pool)
    [nursery] = pool._nurseries.values()
    print(nursery.pid, engine.connection._worker._process.pid, flush=True)
    sys.stdin.read()
"""


def test_nothing_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    path = native.add().seal(tmp_path)
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen(
        [sys.executable, script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=child.environment(),
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        pids = list(map(int, owner.stdout.readline().split()))
        assert len(pids) == 2
        watched = [os.pidfd_open(pid) for pid in pids]
        owner.kill()
        for each in watched:
            ended(each)


# --- what is kept ----------------------------------------------------------------------------------------


def kept_pid(pool: Pool) -> int:
    [(_, engine)] = pool._kept.values()
    return pid_of(engine)


def test_a_second_verdict_is_had_in_the_same_worker(tmp_path: Path) -> None:
    path = native.add().seal(tmp_path)
    with Pool(keep=1) as pool:
        assert verify(path, VerifyOptions(), pool).verdict.exact
        pid = kept_pid(pool)
        assert verify(path, VerifyOptions(), pool).verdict.exact
        assert kept_pid(pool) == pid


def test_a_candidate_leaves_nothing_to_the_next_verdict(tmp_path: Path) -> None:
    launch = native.add()
    path = launch.seal(tmp_path)
    idle = tmp_path / "idle.ptx"
    idle.write_bytes(launch.image(edition=1))
    with Pool(keep=1) as pool:
        alone = verify(path, VerifyOptions(), pool)
        first = verify(path, VerifyOptions(candidate=idle), pool)
        [(_, engine)] = pool._kept.values()
        again = verify(path, VerifyOptions(), pool)
        assert not engine.is_loaded("candidate") and engine._snapshots == set()
        assert first.verdict.answer is Answer.NO
        assert again.as_dict() == alone.as_dict()


def test_another_environment_or_reproducer_is_another_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = native.add().seal(tmp_path / "one"), native.scale().seal(tmp_path / "other")
    with Pool(keep=1) as pool:
        verify(one, VerifyOptions(), pool)
        first = kept_pid(pool)
        monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
        verify(one, VerifyOptions(), pool)
        second = kept_pid(pool)
        verify(other, VerifyOptions(), pool)
        assert len({first, second, kept_pid(pool)}) == 3
        assert not Path(f"/proc/{first}").exists() and not Path(f"/proc/{second}").exists()


def test_no_engine_of_a_hostile_verdict_is_kept(tmp_path: Path) -> None:
    path = native.add().seal(tmp_path)
    candidate = tmp_path / "candidate.ptx"
    candidate.write_bytes(native.add().image())
    options = VerifyOptions(candidate=candidate, hostile=True, stages=("smoke", "oracle"))
    with Pool(keep=1) as pool:
        assert verify(path, VerifyOptions(), pool).passed
        kept = kept_pid(pool)
        assert verify(path, options, pool).passed
        assert kept_pid(pool) == kept  # that of the plain verdict, which it has not seen


def test_a_worker_that_died_is_not_kept(tmp_path: Path) -> None:
    path = native.add().seal(tmp_path)
    with Pool(keep=1) as pool:
        verify(path, VerifyOptions(), pool)
        gone = os.pidfd_open(kept_pid(pool))
        pid = kept_pid(pool)
        os.kill(pid, signal.SIGKILL)
        ended(gone)
        assert verify(path, VerifyOptions(), pool).passed
        assert kept_pid(pool) != pid


# --- programs --------------------------------------------------------------------------------------------


def test_a_compiler_is_a_fork_where_more_verdicts_follow(tmp_path: Path, own_nurseries: None) -> None:
    words = ("packages",)
    environment = child.environment()
    with Pool() as once, Pool(lasting=True) as lasting:
        plain = once.program(sys.executable, words, environment, tmp_path / "plain", tmp_path)
        assert not once._nurseries and plain.wait() == 0
        forked = lasting.program(sys.executable, words, environment, tmp_path / "forked", tmp_path)
        [nursery] = lasting._nurseries.values()
        assert forked.wait() == 0 and nursery.is_alive
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "forked").read_bytes() != b""


def test_the_status_of_a_program_that_fails_is_seen(tmp_path: Path) -> None:
    with Pool(lasting=True) as pool:
        done = pool.program(sys.executable, ("confined",), child.environment(), tmp_path / "log", tmp_path)
        assert done.wait() == 1
    assert "IndexError" in (tmp_path / "log").read_text() or "TypeError" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("hostile", [False, True])
def test_what_does_not_compile_apart_is_left_to_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: bool
) -> None:
    """Unless the candidate is hostile: its Python runs in no worker, whatever becomes of it."""
    candidate = tmp_path / "candidate.py"
    candidate.write_text("open('/etc/motd')\n")

    def refuse(*_: object) -> None:
        raise CandidateError("PermissionError")

    monkeypatch.setattr(triton_image, "compile_triton", refuse)
    with Reproducer.open(native.add().seal(tmp_path / "repro")) as reproducer:
        with Engine(reproducer, choice=CHOICE) as engine:
            variants, asked = engine._variants, Loaded(str(candidate))
            engine.connection.choice = dataclasses.replace(
                CHOICE, launcher="jit", apart=True, hostile=hostile
            )
            if hostile:
                with pytest.raises(CandidateError):
                    variants._resolved(asked)
            else:
                assert variants._resolved(asked) == (str(candidate), None)
            assert engine.ran_python == (not hostile)
            engine.connection.choice = CHOICE


# --- the likely choice -----------------------------------------------------------------------------------


def test_a_likely_choice_asks_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "probe", None)
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        assert engine.choice == CHOICE and engine.launch().ok
        with pytest.raises(TypeError):
            Engine(reproducer, device="cuda:0")


def test_where_it_fails_all_is_said_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = native.add().seal(tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH")
    with Reproducer.open(path) as reproducer:
        with pytest.raises(BackendUnavailable) as asked:
            choose(reproducer.manifest)
        with pytest.raises(BackendUnavailable) as guessed:
            Engine(reproducer)
        assert str(guessed.value) == str(asked.value)


def test_a_device_that_is_not_here_is_replaced_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(manifest: Manifest) -> Manifest:
        return msgspec.structs.replace(manifest, device=msgspec.structs.replace(manifest.device, ordinal=7))

    launch = native.add()
    monkeypatch.setattr(launch, "finished", elsewhere)
    path = launch.seal(tmp_path)
    with Reproducer.open(path) as reproducer, Engine(reproducer) as engine:
        assert engine.choice.device == 0 and engine.launch().ok
