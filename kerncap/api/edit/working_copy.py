"""The files that a user edits, outside of the sealed reproducer, and what is remembered about them.

    softmax_kernel-edit/
      kernel.py            the editable source; of a unit with several files, all of them as they lay
      verdict.txt          the last verdict, for those whose editor has the terminal
      .kerncap/state.json  whose copy this is, what was judged, what passed
      .kerncap/kept/0003/  the files of each save that passed

The original stays in the reproducer. A folder with edits is never written over: it is taken up again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kerncap import unexpected_error, whole_files
from kerncap.api.output_place import is_inside, outside
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import StoredFile
from kerncap.log import one_line

STAGES = ("source", "ttir", "ttgir", "llir", "ptx", "cubin", "hsaco")
_SOURCE = "source/"
_GIVEN = "source/headers/"  # what NVRTC got from memory: no file of the application's
_STATE = ".kerncap"
_VERSION = 1


@dataclass(frozen=True)
class Unit:
    """What there is to edit: texts by their path in a working copy, and where each is stored.

    ``main`` is the path of the file that is given to the engine.
    """

    stage: str
    main: str
    files: Mapping[str, bytes]
    stored: Mapping[str, str] = field(default_factory=dict)  # path in the copy -> path in the reproducer


def unit_of(reproducer: Reproducer, stage: str = "source") -> Unit:
    """The editable files of a stage. Raises UsageError, naming the stages that there are."""
    manifest = reproducer.manifest
    if stage != "source":
        data = reproducer.code(stage)
        if data is None:
            raise UsageError(
                f"--stage {stage}: {reproducer.path} holds no {stage}; it holds {_stages_of(reproducer)}"
            )
        name = f"{_plain(manifest.kernel.name)}.{stage}"
        return Unit(stage, name, {name: data})
    source = manifest.source
    if source is None:
        raise UsageError(
            f"{reproducer.path}: the source was not found at capture; --stage takes {_stages_of(reproducer)}"
        )
    if source.language == "python-dsl" and source.build is None:
        raise UsageError(
            f"{reproducer.path}: its source is only for reading; --stage takes {_stages_of(reproducer)}"
        )
    stored: list[StoredFile] = [source.file]
    is_module = source.language in ("numba", "python-dsl")  # which has all that it needs
    if source.build is not None and not is_module:
        stored += [file for file in source.originals if not file.path.startswith(_GIVEN)]
    files, places = {}, {}
    for file in stored:
        path = _inside(file.path)
        files[path], places[path] = reproducer.file(file), file.path
    return Unit("source", _inside(source.file.path), files, places)


def _inside(stored: str) -> str:
    path = PurePosixPath(stored.removeprefix(_SOURCE))
    if path.is_absolute() or ".." in path.parts or not path.parts or path.parts[0] == _STATE:
        raise UsageError(f"{one_line(stored)}: a file of that name can't be laid out for editing")
    return str(path)


def _stages_of(reproducer: Reproducer) -> str:
    found = [code.stage for code in reproducer.manifest.code if code.stage in STAGES]
    source = reproducer.manifest.source
    if source is not None and (source.language != "python-dsl" or source.build is not None):
        found.insert(0, "source")
    return ", ".join(dict.fromkeys(found)) or "nothing that can be edited"


class WorkingCopy:
    """``places`` says where each file of the unit lies, ``extra`` are files that are watched beside these.

    ``resumed``: it was there before. Use `open` or `around`.
    """

    def __init__(self, unit: Unit, folder: Path, places: dict[str, Path], state: Path) -> None:
        self.unit = unit
        self.folder = folder
        self.places = places
        self.extra: list[Path] = []
        self.resumed = False
        self.state_folder = state
        self._state: dict[str, Any] = {}

    @classmethod
    def open(cls, reproducer: Reproducer, unit: Unit, folder: Path | None = None) -> WorkingCopy:
        """The copy in ``folder`` (default: ``./<kernel>-edit``), made or taken up again.

        Raises UsageError for a folder inside the reproducer, of another reproducer, or with other things.
        """
        asked = folder is not None
        home = outside(Path.cwd(), reproducer.path) if not asked else Path()
        name = f"{_plain(reproducer.manifest.kernel.name)}-edit"
        names = [folder] if folder is not None else [
            home / name, home / f"{name}-{reproducer.manifest_sha256[:8]}",
            home / f"{name}-{reproducer.manifest_sha256[:8]}-{unit.stage}",
        ]  # fmt: skip
        for place in names:
            if is_inside(place, reproducer.path):
                raise UsageError(
                    f"{place}: a reproducer is sealed; name a folder outside of {reproducer.path}"
                )
            place = place.absolute()
            copy = cls(unit, place, {path: place / path for path in unit.files}, place / _STATE)
            if copy._adopt(reproducer, asked):
                return copy
        raise UsageError(f"{names[-1]}: already there, and not a working copy; name a folder with --copy")

    @classmethod
    def around(cls, reproducer: Reproducer, unit: Unit, files: list[Path]) -> WorkingCopy:
        """The user's own ``files``, the first of them the candidate, as the copy."""
        file = files[0].absolute()
        for each in files:
            if not each.is_file():
                raise UsageError(f"{each}: no such file to watch")
            if is_inside(each, reproducer.path):
                raise UsageError(
                    f"{each}: a reproducer is sealed; copy the file out of it, or leave FILE out"
                )
        beside = os.path.dirname(unit.main) or "."
        places = {
            path: Path(os.path.normpath(file.parent / os.path.relpath(path, beside))) for path in unit.files
        }
        copy = cls(unit, file.parent, {**places, unit.main: file}, file.parent / f"{_STATE}-{file.name}")
        copy.extra = [each.absolute() for each in files[1:]]
        copy._take_state(reproducer)
        return copy

    # --- what is in it -----------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        """The one that the engine gets."""
        return self.places[self.unit.main]

    @property
    def watched(self) -> list[Path]:
        """All files whose saves count."""
        return list(dict.fromkeys([*self.places.values(), *self.extra]))

    def read(self) -> dict[str, bytes]:
        """The unit's files that are there, by their path in it."""
        found = {}
        for name, path in self.places.items():
            try:
                found[name] = path.read_bytes()
            except OSError:
                continue  # a header that was deleted: the stored one is used
        return found

    @property
    def verdict_file(self) -> Path:
        """Where the last verdict is, as text."""
        return (self.folder if self.state_folder.name == _STATE else self.state_folder) / "verdict.txt"

    @property
    def is_edited(self) -> bool:
        """Whether anything differs from the original."""
        return any(self.unit.files[path] != data for path, data in self.read().items())

    # --- what is remembered ------------------------------------------------------------------------

    def remembered(self, name: str, default: Any = None) -> Any:
        return self._state.get(name, default)

    def remember(self, **values: Any) -> None:
        """Keep these in the state file, in one step."""
        self._state.update(values)
        try:
            self.state_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unexpected_error.about(self.state_folder, error, "can't be written") from error
        state = json.dumps(self._state, indent=1)
        whole_files.write(self.state_folder / "state.json", state, durable=False)

    # --- making and taking up ----------------------------------------------------------------------

    def _adopt(self, reproducer: Reproducer, asked: bool) -> bool:
        """Make it, or take it up; False if something else is there and another name may serve."""
        if (self.state_folder / "state.json").is_file():
            try:
                self._take_state(reproducer)
            except UsageError:
                if asked:
                    raise
                return False
            self.resumed = True
            self._write_missing()
            return True
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if asked:
                raise UsageError(
                    f"{self.folder}: it has files of no working copy; name an empty or a new folder"
                )
            return False
        self._write_missing()
        self._take_state(reproducer)
        return True

    def _write_missing(self) -> None:
        for path, data in self.unit.files.items():
            target = self.places[path]
            if os.path.lexists(target):  # it may be somebody's work
                continue
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with whole_files.new_file(target, replace=False) as file:
                    file.write(data)
            except OSError as error:
                raise UsageError(
                    f"{target}: can't be written: {error.strerror}; name a folder with --copy"
                ) from error

    def _take_state(self, reproducer: Reproducer) -> None:
        found = _read_state(self.state_folder / "state.json")
        digest = reproducer.manifest_sha256
        if found is not None and (found.get("reproducer"), found.get("stage")) != (digest, self.unit.stage):
            raise UsageError(
                f"{self.folder}: a working copy of {one_line(found.get('path'))} ({found.get('stage')}), "
                f"not of {reproducer.path} ({self.unit.stage}); name another folder with --copy"
            )
        self._state = found or {}
        self.remember(
            version=_VERSION, reproducer=digest, stage=self.unit.stage, main=self.unit.main,
            path=str(reproducer.path.absolute()), kernel=reproducer.manifest.kernel.name,
        )  # fmt: skip


def digest_of(files: Mapping[str, bytes]) -> str:
    """Of names and contents, so that the same text is known again."""
    found = hashlib.sha256()
    for name in sorted(files):
        found.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return found.hexdigest()


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: can't be read ({error}); move it away, or name a folder with --copy"
        ) from error
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise UsageError(f"{path}: of another version; move it away, or name a folder with --copy")
    return found


def _plain(name: str) -> str:
    """A kernel's name as the name of a file."""
    plain = "".join(c if c.isalnum() or c in "_-." else "_" for c in name)[:80].lstrip(".-")
    return plain or "kernel"
