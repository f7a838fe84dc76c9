"""Somebody else's kernels, unmodified: every jit function of liger_kernel that imports here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kerncap.capture.source import assemble

from .conftest import HERE, copy_collector, run


@pytest.mark.long
@pytest.mark.parametrize("interpret", [True, False], ids=["interpreter", "jit"])
def test_every_kernel_becomes_a_module_of_its_own(tmp_path: Path, interpret: bool) -> None:
    pytest.importorskip("liger_kernel")
    copy_collector(tmp_path)
    for script in ("collect_liger.py", "import_all.py"):
        shutil.copy(HERE / "target" / script, tmp_path)
    run(interpret, tmp_path / "collect_liger.py", "graphs.json", cwd=tmp_path)
    graphs = json.loads((tmp_path / "graphs.json").read_text())["graphs"]
    assert len(graphs) >= 60, "liger_kernel has fewer kernels than it had"
    missing = {}
    for name, graph in graphs.items():
        made = assemble(graph)
        if made.missing:
            missing[name] = made.missing
        assert "liger_kernel" not in "".join(line for line in made.text.splitlines() if "import" in line)
        folder = tmp_path / "made" / name
        folder.mkdir(parents=True)
        (folder / "kernel.py").write_text(made.text)
        (folder / "entry").write_text(made.entry)
    assert missing == {}
    run(interpret, tmp_path / "import_all.py", "made", "failed.json", cwd=tmp_path)
    assert json.loads((tmp_path / "failed.json").read_text()) == {}
