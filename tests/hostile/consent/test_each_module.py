"""Every module that the processes of each command import, as a file where a stranger may put one: none runs.

For each command: all of its processes are listened to, in an ordinary run whose PYTHONPATH leads to planted
modules. That names what is imported (also what is not installed), and shows that each planted module would
be reached, whatever the others do. Then those names are planted in the current folder, in the reproducer
and in the root of `kerncap mcp`, and the command does there what it did before. No mark is left, and no
process had the folder in its search path at any import: so it would have found none of them by itself either.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kerncap.cli import COMMANDS
from tests.hostile.consent import test_shadows as shadows
from tests.hostile.consent.planting import Marks, early, modules
from tests.hostile.consent.test_shadows import compiled, marks, reproducers, run, script
from tests.hostile.consent.tracing import Trace, top_level
from tests.unit.capture.core_dump import built_dumps
from tests.unit.capture.recordings import built

__all__ = ["compiled", "marks", "reproducers", "script"]
pytestmark = pytest.mark.long
MORE = {
    "unpack": "unpack {zip} -o {out}/unpacked",
    "seal": "seal {session}",
    "arm": "arm {session} --last 1",
    "slice": "slice {range} 0 -o {out}/sliced",
    "from-core": "from-core {core}",
    "from-recording": "from-recording {recording}",
    "config": "config",
    "gc": "gc {out}",
    "view": "view -o {out}/viewer.html",
    "edit": "replay {0} --once",
    "blame": "blame {0}",
    "until-fail": "replay {0} --until-fail 2",
}
PROGRAMS = {
    "capture": "capture -o {out}/out -- {program}",
    "list": "list -- {program}",
    "trace": "trace -o {out}/trace.json -- {program}",
    "diverge": "diverge -o {out}/diverged -- {program}",
    "sanitize-program": "sanitize -- {program}",
}
WORDS = {name: words for name, (words, _) in {**shadows.LIGHT, **shadows.HEAVY}.items()} | MORE | PROGRAMS
RANGE = Path(__file__).parents[2] / "golden" / "v1.10"
PLACES = ("the current folder", "the reproducer", "another reproducer")
LIGHTEST = [("inspect", "inspect {0}"), ("replay-untrusted", "replay {2}")]


def test_every_command_is_among_them() -> None:
    assert {words.split()[0] for words in WORDS.values()} | {"mcp"} == set(COMMANDS)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", WORDS)
def test_no_module_of_a_command_runs(
    name: str, marks: Marks, script: Path, reproducers: list[str], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    marks.plant(own, leave_out=early())
    given = words_for(name, reproducers, tmp_path / "plain")
    trace = Trace.of(tmp_path / "plain", own)
    _, said = run(script, given, tmp_path / "plain", trace.environment(base(name), str(own)))
    named = top_level(trace.imported()) - set(sys.builtin_module_names) - {""}
    reached = (top_level(trace.reached()) & modules()) - early()
    assert reached <= set(marks.left()), (sorted(reached - set(marks.left())), said)
    assert len(named) > 30, said  # it was traced: fewer on a Python that has more of them built in
    status, _ = run(script, words_for(name, reproducers, tmp_path / "bare"), tmp_path / "bare", base(name))
    counts = f"{trace.processes()} processes import {len(trace.imported())} modules of {len(named)} packages"
    print(f"{name}: {counts}; planted where the user says so, {len(marks.left())} of these run")

    for place in PLACES:
        for left in marks.left():
            (marks.folder / left).unlink()
        work = tmp_path / place.replace(" ", "-")
        work.mkdir()
        asked = [str(shutil.copytree(one, work / Path(one).name)) for one in dict.fromkeys(reproducers)]
        folder = place_of(name, place, asked, work)
        marks.plant(folder, more=named)
        trace = Trace.of(work, folder)
        found, said = run(script, words_for(name, asked, work), folder, trace.environment(base(name)))
        assert (marks.left(), trace.reached()) == ([], set()), (place, said)
        fresh = top_level(trace.imported()) - named - modules() - set(sys.builtin_module_names)
        assert not fresh - {""}, (place, fresh)
        if place != PLACES[1]:  # what lies there besides may be refused for its names
            assert found == status, (place, said)
        print(f"  {place}: {len(modules() | named)} planted, {trace.processes()} processes, none ran")


def place_of(name: str, place: str, asked: list[str], work: Path) -> Path:
    """Where modules are planted, and the command is started."""
    if place == PLACES[0]:
        return work / "here"
    is_asked = [f"{{{number}}}" in WORDS[name] for number in range(len(asked))]
    return Path(
        asked[is_asked.index(True) if place == PLACES[1] and any(is_asked) else is_asked.index(False)]
    )


def words_for(name: str, asked: list[str], folder: Path) -> str:
    """The command line, and what it names, in ``folder``."""
    folder.mkdir(exist_ok=True)
    (folder / ".kerncap-session-none").mkdir()
    (folder / "program.py").write_text(shadows.PROGRAM)
    packed, core = folder / "packed-by-hand.zip", folder / "core.nvcudmp"
    core.write_bytes(built_dumps.dump().elf())
    recording = built.written(folder / "recording")
    if name == "unpack":
        from kerncap.api import pack

        pack(Path(asked[1]), packed)
    return WORDS[name].format(
        *asked, out=folder, space=shadows.space(folder), zip=packed, session=folder / ".kerncap-session-none",
        range=RANGE, core=core, recording=recording, program=f"{sys.executable} {folder / 'program.py'}",
    )  # fmt: skip


def base(name: str) -> dict[str, str]:
    """A program of the user's has its search paths as they are: of those nothing is asked here."""
    return {**os.environ, "TRITON_INTERPRET": "1"} if name in PROGRAMS else shadows.hostile()


@pytest.mark.timeout(1800)
def test_no_module_of_any_tool_of_mcp_runs(marks: Marks, script: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    from kerncap.api import pack
    from kerncap.mcp.tools import TOOLS
    from tests.unit.replay.build import add

    root = tmp_path / "root"
    root.mkdir()
    one, two = add().seal(root).name, add(500).seal(root).name
    pack(root / one, root / "packed.zip")  # the calls are answered beside each other
    (root / "core.nvcudmp").write_bytes(built_dumps.dump().elf())
    recording = built.written(root / "recording").relative_to(root)
    (tmp_path / "program.py").write_text(shadows.PROGRAM)
    program = [sys.executable, str(tmp_path / "program.py")]
    calls = [
        ("doctor", {}), ("list", {"command": program}), ("inspect", {"repro": one}),
        ("from_core", {"core": "core.nvcudmp"}), ("from_recording", {"recording": str(recording)}),
        ("capture", {"command": program, "output": "captured"}), ("replay", {"repro": one}),
        ("verify", {"repro": one}), ("prove", {"a": one, "b": one}), ("blame", {"repro": one}),
        ("sanitize", {"repro": one}), ("sanitize_program", {"command": program}),
        ("tune", {"repros": [one], "trials": 2}), ("diverge", {"command": program}),
        ("diff", {"a": one, "b": two}), ("minimize", {"repro": one, "output": "small"}),
        ("pack", {"repro": one}), ("export", {"repro": one, "kind": "script"}), ("report", {"repro": one}),
        ("unpack", {"archive": "packed.zip", "output": "again"}),
    ]  # fmt: skip
    assert {name for name, _ in calls} == {tool.name for tool in TOOLS}
    trace = Trace.of(tmp_path, root)
    plain = {**os.environ, "TRITON_INTERPRET": "1"}  # it is the user's programs' too
    marks.plant(root, more={"mcp", "pynvml", "cuda", "opt_einsum", "org"})
    answers = shadows.ask(script, root, calls, environment=trace.environment(plain))
    failed = [(call[0], answer) for call, answer in zip(calls, answers, strict=True) if answer.get("isError")]
    assert (marks.left(), trace.reached()) == ([], set()), failed
    assert [name for name, _ in failed] in ([], ["tune"]), failed  # which finds no space in this kernel
    counts = f"{trace.processes()} processes import {len(trace.imported())} modules"
    print(f"mcp: {len(calls)} calls, {counts} of {len(top_level(trace.imported()))} packages, none ran")


# --- one at a time, where starting a process is cheap --------------------------------------------------


def imported(words: list[str], environment: Mapping[str, str]) -> set[str]:
    """The modules that a process imports, as `-X importtime` tells them."""
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.timeout(1800)  # hundreds of short commands
@pytest.mark.parametrize("place", PLACES[:2])
def test_one_module_at_a_time(
    place: str, marks: Marks, script: Path, reproducers: list[str], tmp_path: Path
) -> None:
    start = [sys.executable, "-X", "importtime", str(script)]
    tried: set[str] = set()
    for _, words in LIGHTEST:
        given = words.format(*reproducers)
        names = imported([*start, *given.split()], os.environ) & modules()
        for name in sorted(names - tried):
            folder = tmp_path / f"here-{name}" if place == PLACES[0] else Path(reproducers[0])
            marks.plant(folder, only=name)
            run(script, given if place == PLACES[0] else words.format(*["."] * 3), folder, shadows.hostile())
            (folder / f"{name}.py").unlink()
            assert marks.left() == [], name
        tried |= names
    assert len(tried) > 50
    print(f"{place}: {len(tried)} modules, one at a time, none ran")


def test_one_module_at_a_time_in_the_worker(marks: Marks, tmp_path: Path) -> None:
    """The process that all engines run in, up to where it has torch and triton, from a current folder."""
    from kerncap import child

    bootstrap = Path(child.__file__).parent / "replay" / "worker" / "bootstrap.py"
    start = [sys.executable, "-X", "importtime", str(bootstrap), "packages"]
    names = sorted(imported(start, os.environ) & modules())
    assert {"ctypes", "json"} <= set(names)
    for number, name in enumerate(names):
        here = tmp_path / f"here-{number}"
        marks.plant(here, only=name)
        done = child.run(child.python(sys.executable, bootstrap, "packages"), timeout=100, cwd=here)
        assert marks.left() == [] and done.returncode == 0, name
    print(f"the worker: {len(names)} modules, one at a time, none ran")
