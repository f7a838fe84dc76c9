"""Collects every case once under the interpreter and once under the JIT, and uses what was assembled of them.

A few processes serve all tests: each costs an import of torch.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture.source import AssembledSource, assemble
from tests.integration import forked_commands

HERE = Path(__file__).parent
MODES = ("interpreter", "jit")
HOOK = Path(__file__).parents[3] / "shims" / "triton" / "kerncap_triton"


def run(interpret: bool, script: Path, *args: str, cwd: Path) -> None:
    """Run a script in a process of its own, with nothing on PYTHONPATH."""
    _python(script, *args, cwd=cwd, interpret=str(int(interpret)))


def run_in_both_modes(commands: Mapping[str, tuple[str | Path, ...]], cwd: Path) -> None:
    """A script with its arguments for each mode."""
    given = [[str(int(mode == "interpreter")), list(map(str, words))] for mode, words in commands.items()]
    _python(HERE / "target" / "in_both_modes.py", json.dumps(given), cwd=cwd)


def _python(*words: str | Path, cwd: Path, interpret: str = "0") -> None:
    environment = {
        key: value
        for key, value in os.environ.items()
        if key != "PYTHONPATH" and not key.startswith("TRITON")
    }
    environment["TRITON_INTERPRET"] = interpret
    environment["TRITON_CACHE_DIR"] = str(cwd / "cache")
    command = [sys.executable, *map(str, words)]
    status, out, err = forked_commands.program(command, cwd, environment, 300)
    assert status == 0, out + err


def copy_collector(folder: Path) -> None:
    """The collector as a package of its own: the hook's folder has a sitecustomize that would start."""
    (folder / "collector").mkdir()
    (folder / "collector" / "__init__.py").touch()
    for path in HOOK.glob("source_*.py"):
        shutil.copy(path, folder / "collector")


@dataclass(frozen=True)
class Cases:
    graphs: Mapping[str, dict[str, Any]]  # by "mode/case"
    assembled: Mapping[str, AssembledSource]
    target_results: Mapping[str, list[float]]
    interpreted: Mapping[str, Any]
    compiled: Mapping[str, Any]


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Every case in both modes: "interpreter/single", "jit/single", …"""
    pytest.importorskip("triton")
    work = tmp_path_factory.mktemp("source")
    graphs: dict[str, dict[str, Any]] = {}
    results: dict[str, list[float]] = {}
    assembled: dict[str, AssembledSource] = {}
    made: dict[str, dict[str, Any]] = {}
    for mode in MODES:  # a copy each: one case rewrites its own file
        copy_collector(shutil.copytree(HERE / "target", work / mode))
    run_in_both_modes(
        {m: (work / m / "collect_all.py", work / f"{m}.json", *all_cases()) for m in MODES}, work
    )
    for mode in MODES:
        collected = json.loads((work / f"{mode}.json").read_text())
        results.update({f"{mode}/{name}": value for name, value in collected["results"].items()})
        for name, graph in collected["graphs"].items():
            key = f"{mode}/{name}"
            graphs[key] = graph
            assembled[key] = assemble(graph)
            folder = work / "made" / mode / name
            folder.mkdir(parents=True)
            (folder / "kernel.py").write_text(assembled[key].text)
            made[key] = {"path": str(folder / "kernel.py"), "short": name.rpartition(".")[2],
                         "entry": assembled[key].entry, **graph["test"]}  # fmt: skip
    (work / "made.json").write_text(json.dumps(made))
    shutil.copy(HERE / "target" / "use_all.py", work / "made")
    use = work / "made" / "use_all.py"
    run_in_both_modes({mode: (use, work / "made.json", work / f"used-{mode}.json") for mode in MODES}, work)
    interpreted, compiled = (json.loads((work / f"used-{mode}.json").read_text()) for mode in MODES)
    return Cases(graphs, assembled, results, interpreted, compiled)


def all_cases() -> list[str]:
    """The case modules, by name below `kc_cases`."""
    root = HERE / "target" / "kc_cases"
    found = [path.relative_to(root).with_suffix("") for path in root.rglob("*.py")]
    helpers = {"__init__", "lib", "inner.__init__", "inner.other"}
    return sorted({".".join(path.parts) for path in found} - helpers)
