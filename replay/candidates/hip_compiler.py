"""A staged HIP unit through hipcc or clang, at its original paths.

Clang lays the edited files over the paths that the application's build had (a VFS overlay), so that relative
includes, include folders and line tables mean what they meant there, be those files on this machine or not.
Source: LLVM, `-ivfsoverlay`; "use-external-names": false keeps the original paths in messages and DWARF.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import BackendUnavailable
from kerncap.format.build_options import is_accepted, is_plain_path
from kerncap.replay.candidates import reach
from kerncap.replay.candidates.compilers import (
    Compiled,
    Compiler,
    first_error,
    outside_files,
    readable_log,
    run_tool,
)
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.unit import GIVEN_HEADERS, StagedUnit

# hipcc asks a machine with NVIDIA's compiler which of both is meant.
_ENVIRONMENT = {"HIP_PLATFORM": "amd"}
# To lld, undefined hidden functions are errors whatever --unresolved-symbols says.
_LINKED_ANYHOW = ("-Xoffload-linker", "--noinhibit-exec")
_UNKNOWN_ARCH = re.compile(
    r"invalid target ID|unsupported (?:HIP|CUDA) gpu architecture|unknown target CPU|"
    r"is not a recognized processor|cannot find ROCm device library for|oclc_isa_version_\w+\.bc"
)


@dataclass
class HipCompiler(Compiler):
    """hipcc (or a clang). ``arch``: "gfx90a:xnack-"."""

    def __post_init__(self) -> None:
        if not is_plain_path(str(self.folder)):
            raise BuildError(f"{self.folder}: hipcc can't work in a folder of that name; set TMPDIR")
        self.places = _original_places(self.staged)  # original path -> stored path

    def code_object(self) -> Compiled:
        """Compile the unit's device code for the captured architecture alone.

        Raises BuildError with the compiler's own words, BackendUnavailable for a compiler that does not know
        the architecture.
        """
        return self._compiled()

    def undefined(self, kernel: str) -> frozenset[str]:
        """What ``kernel`` leads to and the unit does not define, mangled. Raises as `code_object` does."""
        made = self._compiled("-ffunction-sections", *_LINKED_ANYHOW, "-Xoffload-linker", "--emit-relocs")
        return reach.undefined_in_code_object(made.data, kernel)

    def code_object_with_undefined(self) -> Compiled:
        """As `code_object`, of a unit that does not define all that it uses."""
        return self._compiled(*_LINKED_ANYHOW)

    def _compiled(self, *more: str) -> Compiled:
        made, rules = self.folder / "made.hsaco", self.folder / "made.d"
        made.unlink(missing_ok=True)
        command = [
            str(self.tool.path), "--cuda-device-only", "--no-gpu-bundle-output",
            f"--offload-arch={self.arch}", *self._words(), *more, "-MD", "-MF", str(rules), "-ivfsoverlay",
            str(self._overlay()), "-x", "hip", "-c", self._input(), "-o", str(made),
        ]  # fmt: skip
        what = f"{self.tool.name} {self.tool.version}"
        done = run_tool(command, self.folder, what, environment=_ENVIRONMENT, confined=self.confined)
        log = self._readable(done.stdout + done.stderr)
        if done.returncode or not made.is_file():
            unknown = _UNKNOWN_ARCH.search(log)
            if unknown is not None:
                reason = f"{self.tool.path} does not compile for {self.arch}: name one that does in HIPCC"
                raise BackendUnavailable(what, reason)
            raise BuildError(f"{what} does not compile the candidate: {first_error(log)}", log)
        read = outside_files(rules, self.folder)
        self._check_that_edits_count(read)
        return Compiled(made.read_bytes(), log, read=tuple(path for path in read if path not in self.places))

    def _check_that_edits_count(self, read: Sequence[str]) -> None:
        """Where this machine's own copy of a library was compiled, the edited one wasn't."""
        edited = {path: stored for path, stored in self.places.items() if stored in self.staged.edited}
        if edited and edited.keys().isdisjoint((*read, self._input())):
            raise BuildError(
                f"{', '.join(edited.values())}: the compiler did not read the edited file; the unit includes "
                f"{', '.join(edited)} no more, or finds another one in this machine's include folders"
            )

    def _words(self) -> list[str]:
        originals = {stored: path for path, stored in self.places.items()}
        tool = self.staged.build.tool
        words = ["-include", "hip/hip_runtime.h"] if tool == "hiprtc" else []  # hipRTC's own is built in
        for option in self.staged.build.options:
            name, equals, value = option.partition("=")
            if not is_accepted(tool, option):
                continue
            if name == "-include":
                words += [name, originals.get(value, str(self.folder / value))]
            else:  # one word in a recipe, two for clang
                words += [name, value] if name == "-mllvm" and equals else [option]
        for form, path in self._folders():
            words += [{"quote": "-iquote", "system": "-isystem"}.get(form, "-I"), path]
        return words

    def _folders(self) -> list[tuple[str, str]]:
        """The application's include folders, by their own paths; the candidate's own last."""
        given = str(self.folder / GIVEN_HEADERS)
        found = [("angle", given)] if os.path.isdir(given) else []
        for each in self.staged.build.include_dirs:
            here = os.path.expanduser(each.path)
            if os.path.isabs(here) and is_plain_path(here):
                found.append((each.form, here))
        own = self.staged.candidate_folder
        return [*found, ("quote", str(own))] if own is not None and is_plain_path(str(own)) else found

    def _overlay(self) -> Path:
        roots = [
            {"type": "file", "name": original, "external-contents": str(self.folder / stored)}
            for original, stored in self.places.items()
        ]
        path = self.folder / "overlay.yaml"  # JSON is YAML, too
        document = {"version": 0, "case-sensitive": True, "use-external-names": False, "roots": roots}
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def _input(self) -> str:
        """The unit's original path; a file that includes it if the driver would not find it."""
        original = next((path for path, stored in self.places.items() if stored == self.staged.unit), None)
        if original is None:
            return str(self.folder / self.staged.unit)
        if os.path.isfile(original):
            return original
        wrapper = self.folder / "unit.hip"
        wrapper.write_text(f'#include "{original}"\n', encoding="utf-8")
        return str(wrapper)

    def _readable(self, text: str) -> str:
        """The log with the reproducer's names for the files."""
        for original in sorted(self.places, key=len, reverse=True):
            text = text.replace(original, self.places[original])
        return readable_log(text, self.folder)


def _original_places(staged: StagedUnit) -> dict[str, str]:
    build = staged.build
    named = {**build.headers, **({build.name: build.unit} if build.name else {})}
    found: dict[str, str] = {}
    for name, stored in named.items():
        path = os.path.expanduser(name)
        # In quotes in an #include, and in words of a command line.
        if os.path.isabs(path) and is_plain_path(path) and os.path.normpath(path) == path:
            found[path] = stored
    return found
