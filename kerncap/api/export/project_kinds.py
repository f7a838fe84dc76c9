"""A project's folder, by its kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kerncap.api.export.project_words import facts, file_stem, title
from kerncap.api.export.script import make_script
from kerncap.api.export.tasks import write_flashinfer_trace, write_kernelbench, write_pygpubench
from kerncap.api.export.templates import filled
from kerncap.format import Reproducer


@dataclass(frozen=True)
class Project:
    """``run``: commands that run it, @FOLDER@ for where it is."""

    run: tuple[str, ...]
    notes: tuple[str, ...]


def make_project(kind: str, reproducer: Reproducer, folder: Path) -> Project:
    """Write the project into ``folder``, which is empty. Raises UsageError, naming what can't be exported."""
    if kind == "script":
        return _script(reproducer, folder)
    if kind == "cmake":
        return _cmake(reproducer, folder)
    if kind == "kernelbench":
        name, notes = write_kernelbench(reproducer, folder)
        check = "python scripts/run_and_check.py ref_origin=local eval_mode=local backend=triton"
        run = f"{check} ref_arch_src_path=@FOLDER@/{name} kernel_src_path=SOLUTION.py"
        return Project((run,), notes)
    if kind == "flashinfer-trace":
        return Project(("flashinfer-bench run --local @FOLDER@",), write_flashinfer_trace(reproducer, folder))
    if kind == "pygpubench":
        return Project(("python @FOLDER@/task.py",), write_pygpubench(reproducer, folder))
    return _pytest(reproducer, folder)


def _script(reproducer: Reproducer, folder: Path) -> Project:
    script = make_script(reproducer, inline=False)
    _write(folder / script.name, script.text)
    for name, data in script.data.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    run = f"python @FOLDER@/{script.name}"
    return Project((run, f"TRITON_INTERPRET=1 {run}"), script.notes)


def _cmake(reproducer: Reproducer, folder: Path) -> Project:
    from kerncap.api.export.cmake_project import write_native

    notes = write_native(reproducer, folder)
    build = "cmake -S @FOLDER@ -B build && cmake --build build"
    return Project((build, "ctest --test-dir build --output-on-failure"), notes)


def _pytest(reproducer: Reproducer, folder: Path) -> Project:
    manifest = reproducer.manifest
    native = manifest.launch.mode == "native"
    project = _cmake(reproducer, folder) if native else _script(reproducer, folder)
    stem = file_stem(manifest)
    values = {"TITLE": title(manifest), "FACTS": facts(manifest), "FILE": f"{stem}.py", "NAME": stem}
    test = filled("test_native.py.in" if native else "test_script.py.in", values)
    _write(folder / f"test_{stem}.py", test)
    return Project((f"python -m pytest @FOLDER@/test_{stem}.py",), project.notes)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
