"""What a confined process can't do any more; each trial runs in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kerncap import child
from kerncap.replay.worker.torch_backend import confine

TRIAL = """
import json, os, socket, sys
confine = __import__("importlib.util", fromlist=["util"])
spec = confine.spec_from_file_location("confine", sys.argv[1])
module = confine.module_from_spec(spec)
spec.loader.exec_module(module)
folder, own, readable = sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
missing = module.confine(readable, [own])
tried = {}
for name, action in {
    "read": lambda: open(folder + "/there").read(),
    "write": lambda: open(folder + "/new", "w"),
    "truncate": lambda: os.truncate(folder + "/there", 0),
    "mark": lambda: os.utime(folder + "/there"),
    "mode": lambda: os.chmod(folder + "/there", 0o600),
    "remove": lambda: os.remove(folder + "/there"),
    "own": lambda: open(own + "/new", "w").close(),
    "socket": lambda: socket.socket(),
    "parent": lambda: open(f"/proc/{os.getppid()}/mem", "r+b"),
    "signal": lambda: os.kill(os.getppid(), 0),
}.items():
    try:
        action()
        tried[name] = "done"
    except OSError as error:
        tried[name] = error.strerror
print(json.dumps([missing, tried]))
"""
DENIED = ("Permission denied", "Operation not permitted")


@pytest.fixture(scope="module", autouse=True)
def _supported() -> None:
    if confine.missing():
        pytest.skip(f"this Linux lacks {' and '.join(confine.missing())}")


@pytest.mark.parametrize("reads", [True, False])
def test_what_is_taken_away(tmp_path: Path, reads: bool) -> None:
    folder, own = tmp_path / "others", tmp_path / "own"
    folder.mkdir()
    own.mkdir()
    (folder / "there").write_text("text")
    readable = None if reads else confine.readable_by(tmp_path / "trial.py", [str(folder)])
    script = tmp_path / "trial.py"
    script.write_text(TRIAL)
    words = (str(confine.__file__), str(folder), str(own), json.dumps(readable))
    done = child.run(child.python(sys.executable, script, *words), timeout=60, check=True)
    missing, tried = json.loads(done.stdout)
    assert missing == []
    allowed = {name for name, outcome in tried.items() if outcome == "done"}
    signals = {"signal"}  # taken away since Linux 6.12
    assert allowed - signals == ({"own", "read"} if reads else {"own"}), tried
    assert all(outcome in DENIED for name, outcome in tried.items() if name not in allowed), tried
    assert (folder / "there").read_text() == "text"


def test_nothing_hidden_is_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    hidden = project / "out" / "kernel-1"
    hidden.mkdir(parents=True)
    (project / "package").mkdir()
    (project / "package" / "__init__.py").touch()
    (project / "out" / "notes.txt").touch()
    (project / "candidate.py").touch()
    for name, target in (
        ("up", project),
        ("around", hidden.parent),
        ("into", hidden),
        ("aside", tmp_path / "other"),
    ):
        (project / name).symlink_to(target)
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(project)])
    granted = confine.readable_by(project / "candidate.py", [str(hidden)])
    assert str(project / "package") in granted and str(project / "candidate.py") in granted
    assert str(tmp_path / "other") in granted
    for path in (Path(path).resolve() for path in granted):
        assert path != hidden and path not in hidden.parents, path
    assert os.fspath(project) not in granted
