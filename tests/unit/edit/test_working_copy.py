"""Working copies: outside of the reproducer, never written over, and they remember what passed."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from kerncap.api.edit.application_files import patch_of
from kerncap.api.edit.passed_saves import History
from kerncap.api.edit.resident_engine import EditOptions, EditSession
from kerncap.api.edit.working_copy import WorkingCopy, digest_of, unit_of
from kerncap.errors import UsageError
from kerncap.format import Reproducer

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def reproducer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reproducer:
    """A copy of a golden file, from a folder beside it."""
    shutil.copytree(GOLDEN / "v1.2", tmp_path / "repro")
    monkeypatch.chdir(tmp_path)
    return Reproducer.open(tmp_path / "repro")


def copy_of(reproducer: Reproducer, folder: Path | None = None, stage: str = "source") -> WorkingCopy:
    return WorkingCopy.open(reproducer, unit_of(reproducer, stage), folder)


def test_it_lies_beside_and_holds_the_source(reproducer: Reproducer, tmp_path: Path) -> None:
    copy = copy_of(reproducer)
    name = reproducer.manifest.kernel.name
    assert copy.folder == tmp_path / f"{name}-edit" and not copy.resumed and not copy.is_edited
    assert copy.file.read_text() == reproducer.source_text()
    reproducer.verify()


def test_inside_of_the_reproducer_it_moves_out(
    reproducer: Reproducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reproducer.path / "source")
    assert copy_of(reproducer).folder.parent == reproducer.path.parent
    for folder in (reproducer.path / "mine", Path("."), reproducer.path):
        with pytest.raises(UsageError, match="sealed"):
            copy_of(reproducer, folder)
    with pytest.raises(UsageError, match="sealed"):
        unit = unit_of(reproducer)
        WorkingCopy.around(reproducer, unit, [reproducer.path / "source" / "kernel.py"])
    reproducer.verify()


def test_edits_are_taken_up_again(reproducer: Reproducer) -> None:
    copy_of(reproducer).file.write_text("# my work\n")
    again = copy_of(reproducer)
    assert again.resumed and again.is_edited and again.file.read_text() == "# my work\n"


def test_a_file_that_was_deleted_comes_back(reproducer: Reproducer) -> None:
    copy_of(reproducer).file.unlink()
    assert copy_of(reproducer).file.read_text() == reproducer.source_text()


def test_another_reproducer_gets_another_folder(reproducer: Reproducer, tmp_path: Path) -> None:
    copy = copy_of(reproducer)
    text = (copy.state_folder / "state.json").read_text().replace(reproducer.manifest_sha256, "0" * 64)
    (copy.state_folder / "state.json").write_text(text)
    copy.file.write_text("# another's work\n")
    second = copy_of(reproducer)
    assert second.folder != copy.folder and reproducer.manifest_sha256[:8] in second.folder.name
    assert copy.file.read_text() == "# another's work\n"
    with pytest.raises(UsageError, match="a working copy of"):
        copy_of(reproducer, copy.folder)


def test_a_folder_with_other_things_is_left_alone(reproducer: Reproducer, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kernel.py").write_text("precious")
    with pytest.raises(UsageError, match="no working copy"):
        copy_of(reproducer, mine)
    assert (mine / "kernel.py").read_text() == "precious"
    default = tmp_path / f"{reproducer.manifest.kernel.name}-edit"
    default.mkdir()
    (default / "notes.txt").write_text("precious")
    assert copy_of(reproducer).folder != default


def test_a_stage_that_is_not_there_names_those_that_are(reproducer: Reproducer) -> None:
    with pytest.raises(UsageError, match=r"holds no llir; it holds .*source"):
        unit_of(reproducer, "llir")


def test_a_compiled_stage_has_its_own_copy_and_no_patch(reproducer: Reproducer) -> None:
    stages = [code.stage for code in reproducer.manifest.code if code.stage in ("ttir", "ptx", "cubin")]
    assert stages, "the golden file holds what it was compiled to"
    source, copy = copy_of(reproducer), copy_of(reproducer, stage=stages[0])
    assert copy.folder != source.folder and copy.file.suffix == f".{stages[0]}"
    assert copy.file.read_bytes() == reproducer.code(stages[0])
    with pytest.raises(UsageError, match="--apply"):
        patch_of(reproducer, copy)


def test_what_passed_is_kept_and_the_best_is_known(reproducer: Reproducer) -> None:
    copy = copy_of(reproducer)
    history = History(copy)
    for ratio, text in ((0.9, b"one"), (0.7, b"two"), (None, b"three"), (0.8, b"four")):
        files = {"kernel.py": text}
        history.keep(history.next_number(), digest_of(files), files, ratio)
    again = History(copy_of(reproducer))
    assert (again.count, again.saves) == (4, 4)
    assert again.best is not None and again.best.number == 2
    assert again.where(again.best).read_bytes() == b"two"
    same = again.keep(again.next_number(), digest_of({"kernel.py": b"two"}), {"kernel.py": b"two"}, 0.95)
    assert same.number == 2 and again.count == 4 and again.best is not None and again.best.number == 4


def test_the_users_own_file_is_the_copy(reproducer: Reproducer, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.py", tmp_path / "other.py"
    mine.write_text("# mine")
    other.write_text("# other")
    copy = WorkingCopy.around(reproducer, unit_of(reproducer), [mine, other])
    assert copy.file == mine and copy.watched == [mine, other] and copy.is_edited
    assert copy.verdict_file.parent != tmp_path, "nothing of ours lies among the user's files"
    with pytest.raises(UsageError, match="no such file"):
        WorkingCopy.around(reproducer, unit_of(reproducer), [tmp_path / "none.py"])


def test_what_a_users_own_file_imports_lies_beside_its_snapshot_too(
    reproducer: Reproducer, tmp_path: Path
) -> None:
    mine, package = tmp_path / "mine.py", tmp_path / "package"
    package.mkdir()
    for path in (mine, tmp_path / "helper.py", package / "__init__.py"):
        path.write_text(f"# {path.name}")
    session = EditSession(tmp_path / "repro", EditOptions(files=(mine,)))
    session.copy = WorkingCopy.around(reproducer, unit_of(reproducer), [mine])
    session.engine = SimpleNamespace(choice=SimpleNamespace(launcher="jit"))  # type: ignore[assignment]
    session._snapshots = tmp_path / "snapshots"
    session._snapshots.mkdir()
    loaded = session.snapshot(1, session.copy.read())
    assert loaded.read_text() == "# mine.py" and not loaded.is_symlink()
    assert (loaded.parent / "helper.py").samefile(tmp_path / "helper.py")
    assert (loaded.parent / "package").samefile(package)
    assert {path.name for path in loaded.parent.iterdir()} == {"mine.py", "helper.py", "package"}


def test_a_damaged_state_is_named(reproducer: Reproducer) -> None:
    copy = copy_of(reproducer)
    (copy.state_folder / "state.json").write_text("{")
    with pytest.raises(UsageError, match="state.json"):
        copy_of(reproducer, copy.folder)
