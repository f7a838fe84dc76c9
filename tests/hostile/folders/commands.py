"""The commands of kerncap, each in a place of its own, and what holds of them on a bad day."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.api import pack
from kerncap.format import Reproducer
from kerncap.format.range_writer import write_range
from tests.hostile.consent.test_shadows import PROGRAM, space
from tests.hostile.disks.targets import STATUSES
from tests.hostile.disks.test_commands_faults import is_whole
from tests.session_options import session_json
from tests.unit.capture.core_dump import built_dumps
from tests.unit.capture.recorded import RecordedProcess, bare_session
from tests.unit.capture.recordings import built
from tests.unit.replay.build import add

from .ordinary_user import PYTEST, Asked, Done, OrdinaryUser

# {0}, {1}: reproducers. What runs no kernel, and what does, or starts another Python.
LIGHT = {
    "from-core": "from-core {core}",
    "from-recording": "from-recording {recording} -o {out}/made",
    "inspect": "inspect --verify {0}",
    "diff": "diff {0} {1}",
    "pack": "pack {0} -o {out}/made.zip",
    "unpack": "unpack {zip} -o {out}",
    "report": "report {0} -o {out}/made.html",
    "export": "export {0} --as script -o {out}/made",
    "export-pytest": "export {0} --as pytest -o {out}/made",
    "profile": "profile {0}",
    "seal": "seal {session} -o {out}",
    "arm": "arm {session} --last 1",
    "schema": "schema inspect",
    "config": "config",
    "gc": "gc {root} --older-than 12h",
    "slice": "slice {range} 0 -o {out}",
    "trace": "trace -o {out}/made.json -- true",
    "diverge": "diverge -- true -- true",
    "capture": "capture -o {out}/made -- true",
    "list": "list --save {out}/made.json -- true",
    "sanitize-program": "sanitize -- true",
    "mcp": "mcp --root {root}",
}
HEAVY = {
    "replay": "replay {0}",
    "limits": "replay --limits {0}",
    "compare": "replay {0} --compare captured,rebuilt",
    "edit": "replay {0} --edit --once --copy {out}/copy",
    "verify": "verify {0} --stages smoke,oracle",
    "tune": "tune {0} --space {space} --trials 2",
    "minimize": "minimize {0} -o {out}/made",
    "prove": "prove {0} {0}",
    "sanitize": "sanitize {0}",
    "sanitize-sarif": "sanitize {0} --sarif {out}/made.sarif",
    "blame": "blame {0} -o {out}/made",
    "doctor": "doctor",
    PYTEST: PYTEST + " --kerncap={0} -p no:cacheprovider -p no:hypothesispytest",
}
COMMANDS = {**LIGHT, **HEAVY}
# The statuses that are not 0 if all is well.
ANSWERS = {
    "diff": 1, "profile": 4, "arm": 2, "capture": 1, "list": 1, "sanitize-program": 5, "compare": 5,
    "trace": 1, "diverge": 5,
}  # fmt: skip
READING = [name for name, words in COMMANDS.items() if "{0}" in words]
WRITING = [name for name, words in COMMANDS.items() if "{out}" in words]
_SAID = re.compile(r"kerncap: .+: .+; .+")  # <subject>: <problem>; <remedy>


@dataclass(frozen=True)
class Place:
    """What commands read and write: fresh for each test, the reproducers trusted."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Place:
        """XDG_CONFIG_HOME is in it when this is called."""
        made = cls(folder)
        for path in (made.root, made.out, made.temporary, made.here):
            path.mkdir(parents=True)
        for count in (4_000, 500):
            add(count).seal(folder / "sealed").rename(made.root / f"add-{count}")
        shutil.rmtree(folder / "sealed")
        pack(made.repro, folder / "by-hand.zip")
        with Reproducer.open(made.repro) as launch:
            write_range(folder, [(0, launch)]).rename(made.range)
        bare_session(made.session)
        (made.session / "session.json").write_text(json.dumps(session_json()))
        process = RecordedProcess(made.session)
        process.launch(0)
        process.complete(0)
        process.end()
        (folder / "core.nvcudmp").write_bytes(built_dumps.dump().elf())
        built.written(folder / "recording")
        space(folder)
        (folder / "program.py").write_text(PROGRAM)
        return made

    def copy(self, folder: Path) -> Place:
        shutil.rmtree(folder, ignore_errors=True)
        return Place(Path(shutil.copytree(self.folder, folder)))

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def repro(self) -> Path:
        return self.root / "add-4000"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def temporary(self) -> Path:
        return self.folder / "temporary"

    @property
    def range(self) -> Path:
        return self.folder / "range"

    @property
    def here(self) -> Path:
        return self.folder / "here"

    @property
    def session(self) -> Path:
        return self.folder / "session"

    def read_by(self, name: str) -> Path:
        """What the command is given to read."""
        return self.session if "{session}" in COMMANDS[name] else self.repro

    def words(self, words: str) -> list[str]:
        return words.format(
            self.repro, self.root / "add-500", out=self.out, zip=self.folder / "by-hand.zip", root=self.root,
            session=self.session, space=self.folder / "space.json", range=self.range,
            core=self.folder / "core.nvcudmp",
            recording=self.folder / "recording",
        ).split()  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TMPDIR": str(self.temporary), "XDG_CONFIG_HOME": str(self.folder / "config"), "EDITOR": "true",
            "XDG_CACHE_HOME": str(self.folder / "cache"), "TRITON_INTERPRET": "1",
        }  # fmt: skip

    def run(self, user: OrdinaryUser, words: str, has_cwd: bool = True, **how: Any) -> Done:
        """In an empty folder, or in one that was deleted; ``how``: of `Asked`."""
        cwd = str(self.here) if has_cwd else None
        return user.run(Asked(self.words(words), cwd, self.environment, **how))

    @contextmanager
    def closed(self, path: Path, mode: int) -> Iterator[None]:
        before = path.stat().st_mode
        path.chmod(mode)
        try:
            yield
        finally:
            path.chmod(before)

    def nothing_half_written(self) -> None:
        for place in (self.out, self.temporary, self.here):
            for path in place.rglob("*"):
                name = str(path.relative_to(place))
                assert "kerncap-" not in name and ".tmp-" not in name, name
                assert not path.is_file() or is_whole(name, path.read_bytes()), name


def held(done: Done, place: Place) -> None:
    """It did its work, or said in one line why not, with a status that says so."""
    said = done.out + done.err
    assert done.status in STATUSES and "Traceback" not in said, said
    if done.status == 2:
        assert _SAID.fullmatch(done.last), done.err
    place.nothing_half_written()


def refused(done: Done, what: str) -> None:
    """Status 2, and no more than one line, which names the path and the reason."""
    assert done.status == 2 and done.err == done.last + "\n" and done.out == "", done
    assert _SAID.fullmatch(done.last) and what in done.last, done.err
