"""A project's folder, by its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap.api.export.project_words import Words, words_of_launch, words_of_range
from kerncap.api.export.range_script import RUN, TEST, write_range
from kerncap.api.export.script import make_script
from kerncap.api.export.tasks import write_flashinfer_trace, write_kernelbench, write_pygpubench
from kerncap.api.export.templates import filled
from kerncap.errors import UsageError
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.expanded_size import require_expandable


@dataclass(frozen=True)
class Project:
    """``run``: commands that run it, @FOLDER@ for where it is."""

    run: tuple[str, ...]
    notes: tuple[str, ...]


def make_project(kind: str, reproducer: Reproducer, folder: Path) -> Project:
    """Write the project into ``folder``, which is empty. Raises UsageError, naming what can't be exported."""
    if kind == "script":
        return _script(reproducer, folder)
    words = words_of_launch(reproducer.manifest)
    if kind == "cmake":
        return _cmake([reproducer], words, folder)
    if kind == "kernelbench":
        name, notes = write_kernelbench(reproducer, folder)
        check = "python scripts/run_and_check.py ref_origin=local eval_mode=local backend=triton"
        run = f"{check} ref_arch_src_path=@FOLDER@/{name} kernel_src_path=SOLUTION.py"
        return Project((run,), notes)
    if kind == "flashinfer-trace":
        return Project(("flashinfer-bench run --local @FOLDER@",), write_flashinfer_trace(reproducer, folder))
    if kind == "pygpubench":
        return Project(("python @FOLDER@/task.py",), write_pygpubench(reproducer, folder))
    if reproducer.manifest.launch.mode == "native":
        return _test(_cmake([reproducer], words, folder), "test_native.py.in", words, folder)
    return _test(_script(reproducer, folder), "test_script.py.in", words, folder)


def make_range_project(kind: str, opened: LaunchRange, folder: Path, max_size: int | None) -> Project:
    """As `make_project`, of a range; ``max_size``: bytes that a launch's memory may take, written out."""
    for launch in opened.launches:
        launch.max_expanded = max_size
        require_expandable(launch)
    is_native = any(launch.manifest.launch.mode == "native" for launch in opened.launches)
    if kind == "cmake" or (kind == "pytest" and is_native):
        words = words_of_range(opened.launches)
        project = _cmake(opened.launches, words, folder)
        return project if kind == "cmake" else _test(project, "test_native.py.in", words, folder)
    if kind not in ("script", "pytest"):
        raise UsageError(f"{opened.path}: a task is of one launch; kerncap slice makes a reproducer of one")
    notes = write_range(opened, folder, with_test=kind == "pytest")
    if kind == "pytest":
        return Project((f"python -m pytest @FOLDER@/{TEST}",), notes)
    run = f"python @FOLDER@/{RUN}"
    return Project((run, f"TRITON_INTERPRET=1 {run}"), notes)


def _script(reproducer: Reproducer, folder: Path) -> Project:
    script = make_script(reproducer, inline=False)
    _write(folder / script.name, script.text)
    for name, data in script.data.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    run = f"python @FOLDER@/{script.name}"
    return Project((run, f"TRITON_INTERPRET=1 {run}"), script.notes)


def _cmake(launches: Sequence[Reproducer], words: Words, folder: Path) -> Project:
    from kerncap.api.export.cmake_project import write_native

    notes = write_native(launches, words, folder)
    build = "cmake -S @FOLDER@ -B build && cmake --build build"
    return Project((build, "ctest --test-dir build --output-on-failure"), notes)


def _test(project: Project, template: str, words: Words, folder: Path) -> Project:
    name = f"test_{words.stem}.py"
    values = {"TITLE": words.title, "FACTS": words.facts, "FILE": f"{words.stem}.py", "NAME": words.stem}
    _write(folder / name, filled(template, values))
    return Project((f"python -m pytest @FOLDER@/{name}",), project.notes)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
