"""Working copies of native units: all files as they lay, and patches of whole files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kerncap.api.edit.application_files import patch_of
from kerncap.api.edit.save_watcher import Watcher
from kerncap.api.edit.working_copy import WorkingCopy, unit_of
from kerncap.capture import languages
from kerncap.format import Reproducer
from kerncap.replay.candidates.unit import stage
from tests.unit.replay.candidates.conftest import Make

FILES = {
    "src/k.cu": '#include "a/i.h"\n#include "../b/i.h"\n'
    'extern "C" __global__ void k(int *x) { *x = A + B; }\n',
    "src/a/i.h": "#define A 1\n",
    "b/i.h": "#define B 2\n",
}


@pytest.fixture
def app(tmp_path: Path, make: Make) -> Reproducer:
    for name, text in FILES.items():
        path = tmp_path / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return make(languages.find(languages.SourceRequest("k", source_dirs=(tmp_path / "app",))), "k")


def test_headers_lie_as_they_lay_and_count_as_edits(app: Reproducer, tmp_path: Path) -> None:
    copy = WorkingCopy.open(app, unit_of(app), tmp_path / "copy")
    assert {name: (copy.folder / name).read_text() for name in FILES} == FILES
    assert copy.file == copy.folder / "src" / "k.cu" and set(copy.watched) == {copy.folder / n for n in FILES}
    watcher = Watcher(copy.watched)
    (copy.folder / "b" / "i.h").write_text("#define B 200\n")
    assert watcher.changed() == [copy.folder / "b" / "i.h"]
    assert stage(app, copy.file).edited == ["source/b/i.h"], "the engine sees the header that was edited"


def test_the_patch_is_of_the_applications_files(app: Reproducer, tmp_path: Path) -> None:
    copy = WorkingCopy.open(app, unit_of(app), tmp_path / "copy")
    assert patch_of(app, copy).text == ""
    (copy.folder / "b" / "i.h").write_text("#define B 200\n")
    copy.file.write_text(FILES["src/k.cu"].replace("A + B", "B + A"))
    patch = patch_of(app, copy)
    assert set(patch.files) == {str(tmp_path / "app" / "src" / "k.cu"), str(tmp_path / "app" / "b" / "i.h")}
    mirror = tmp_path / "mirror"
    for name, text in FILES.items():
        path = mirror / (tmp_path / "app" / name).relative_to(patch.root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        ["patch", "-p1"], cwd=mirror, input=patch.text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + patch.text
    changed = mirror / (tmp_path / "app").relative_to(patch.root)
    assert "B + A" in (changed / "src" / "k.cu").read_text()
    assert (changed / "b" / "i.h").read_text() == "#define B 200\n"


def test_the_users_own_unit_brings_the_headers_beside_it(app: Reproducer, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "src" / "k.cu"
    mine.parent.mkdir(parents=True)
    mine.write_text(FILES["src/k.cu"])
    copy = WorkingCopy.around(app, unit_of(app), [mine])
    assert tmp_path / "mine" / "b" / "i.h" in copy.watched and not copy.is_edited
    (tmp_path / "mine" / "b").mkdir()
    (tmp_path / "mine" / "b" / "i.h").write_text("#define B 9\n")
    assert copy.is_edited and stage(app, mine).edited == ["source/b/i.h"]


def test_a_program_from_memory_has_a_patch_of_its_text(tmp_path: Path, make: Make) -> None:
    """NVRTC got it as a string: there is a name, and no file."""
    text = 'extern "C" __global__ void fill(float *x) { x[threadIdx.x] = 2; }\n'
    (tmp_path / "program-0.json").write_text(
        json.dumps({"name": "fill.cu", "source": text, "headers": {}, "options": [], "lowered": {}})
    )
    request = languages.SourceRequest("fill", "fill", origin="nvrtc", program=tmp_path / "program-0.json")
    reproducer = make(languages.find(request), "fill")
    copy = WorkingCopy.open(reproducer, unit_of(reproducer), tmp_path / "copy")
    copy.file.write_text(text.replace("2", "3"))
    patch = patch_of(reproducer, copy)
    assert patch.text.startswith("--- a/fill.cu\n+++ b/fill.cu\n") and "= 3;" in patch.text
