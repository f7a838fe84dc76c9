"""Until the user has had enough: wait for a save or a key, judge, show."""

from __future__ import annotations

import contextlib
import difflib
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

from kerncap import interrupts, whole_files
from kerncap.api.edit.edit_result import EditResult
from kerncap.api.edit.editor import Editor
from kerncap.api.edit.patch import Patch, bare_lines
from kerncap.api.edit.resident_engine import EditSession
from kerncap.api.edit.save_watcher import TICK_S, Watcher
from kerncap.api.edit.terminal import Keys
from kerncap.errors import KerncapError, UsageError
from kerncap.exit_status import exit_status
from kerncap.log import from_here
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.report.documents.edit_and_compare import WhichKernel


class Screen(Protocol):
    """Where it is shown: a terminal, a pipe, lines of JSON."""

    def opened(self, session: EditSession, editor: Editor | None, keys: bool) -> None: ...
    def judging(self, which: str) -> None: ...
    def result(self, result: EditResult) -> None: ...
    def as_text(self, result: EditResult) -> str: ...
    def say(self, what: str) -> None: ...
    def diff(self, lines: list[str]) -> None: ...
    def help(self) -> None: ...


class Loop:
    """``run`` gives the last judgement's exit status."""

    def __init__(self, session: EditSession, screen: Screen, editor: Editor | None = None) -> None:
        self.session = session
        self.screen = screen
        self.editor = editor
        self.which: WhichKernel = CANDIDATE
        self.last: EditResult | None = None
        self._process: subprocess.Popen[bytes] | None = None  # an editor that has the terminal
        self._on_interrupt: Any = signal.SIG_DFL
        self._unshown = 0

    def once(self) -> int:
        """One judgement of the working copy as it is."""
        self._judge(saved=False, first=True)
        return self._status

    def run(self) -> int:
        """Until q, or a signal that ends it; one that comes before the first judgement is raised."""
        with Keys() as keys, interrupts.raised():
            try:
                self.screen.opened(self.session, self.editor, keys.there)
                watcher = Watcher(self.session.copy.watched)
                if self.editor is not None:
                    self._open_editor(keys)
                self._judge(saved=False, first=True)
                while True:
                    if watcher.changed():
                        self._judge(saved=True)
                    self._see_to_editor(keys)
                    if self._process is not None:  # its keys are not ours
                        time.sleep(TICK_S)
                    elif (key := keys.wait(TICK_S)) and not self._key(key, keys):
                        break
            except KeyboardInterrupt:  # a signal is a way to leave it; without a verdict there is no answer
                if self.last is None:
                    raise
            finally:
                if self._process is not None and self._process.poll() is None:
                    self._process.terminate()
        return self._status

    @property
    def _status(self) -> int:
        return 1 if self.last is None else exit_status(self.last.answer)

    # --- judging ---------------------------------------------------------------------------------------

    def _judge(self, saved: bool, first: bool = False) -> None:
        if self._process is None:
            self.screen.judging(self.which)
        try:
            result = self.session.judge(self.which, saved)
        except KerncapError as error:
            if first:
                raise
            self.screen.say(str(error))  # a compiler that went away may come back
            return
        self.last = result
        with contextlib.suppress(OSError, UsageError):
            path = self.session.copy.verdict_file
            path.parent.mkdir(parents=True, exist_ok=True)
            whole_files.write(path, self.screen.as_text(result) + "\n", durable=False)
        if self._process is None:
            self.screen.result(result)
        else:
            self._unshown += 1

    # --- the editor ------------------------------------------------------------------------------------

    def _open_editor(self, keys: Keys) -> None:
        if self.editor is None:
            return
        if self.editor.place == "terminal":
            keys.give()
        self._process = self.editor.start(self.session.working_copy)
        if self._process is not None:
            # Ctrl-C is the editor's, until it ends.
            self._on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _see_to_editor(self, keys: Keys) -> None:
        """Take the terminal back from an editor that ended, and show what was judged meanwhile."""
        if self._process is None or self._process.poll() is None:
            return
        self._process = None
        signal.signal(signal.SIGINT, self._on_interrupt)
        keys.take()
        if self._unshown and self.last is not None:
            self.screen.result(self.last)
            self._unshown = 0
        self.screen.say("the editor has ended: still watching (e opens it again, q quits)")

    # --- keys ------------------------------------------------------------------------------------------

    def _key(self, key: str, keys: Keys) -> bool:
        """Whether to go on."""
        if key == "q" or key == "\x04":
            return False
        if key == "r":
            self._judge(saved=False)
        elif key == "o":
            self.which = ORIGINAL if self.which == CANDIDATE else CANDIDATE
            self.screen.say(f"now running the {self.which} (o: the other)")
            self._judge(saved=False)
        elif key == "d":
            self.screen.diff(difference(self.session))
        elif key == "a":
            self._apply()
        elif key == "e":
            if self.editor is None:
                self.screen.say(f"edit {self.session.working_copy} with any editor; --edit opens one")
            else:
                self._open_editor(keys)
        elif key in "h?":
            self.screen.help()
        return True

    def _apply(self) -> None:
        try:
            path, patch = write_patch(self.session)
        except (KerncapError, OSError) as error:
            self.screen.say(str(error))
            return
        self.screen.say(patch_words(path, patch))


def difference(session: EditSession) -> list[str]:
    """The edits as a unified diff of the working copy against the reproducer's original."""
    found: list[str] = []
    now = session.copy.read()
    for name, data in session.copy.unit.files.items():
        if now.get(name, data) != data:
            before, after = (bare_lines(each.decode("utf-8", "replace")) for each in (data, now[name]))
            found += difflib.unified_diff(before, after, f"original/{name}", f"edited/{name}", lineterm="")
    return found


def write_patch(session: EditSession) -> tuple[Path, Patch]:
    """The patch beside the working copy; where it is, and what is in it."""
    patch = session.patch()
    path = session.copy.verdict_file.with_name(f"{session.copy.file.stem}.patch")
    whole_files.write(path, patch.text)
    return path, patch


def apply_words(patch: Patch, path: Path) -> str:
    """The command that applies a patch from here."""
    if not patch.root.is_absolute():
        return f"patch -p1 < {shlex.quote(str(path))}"
    if from_here(patch.root) == ".":
        return f"git apply {shlex.quote(str(path))}"
    return f"git -C {shlex.quote(str(patch.root))} apply {shlex.quote(str(path.absolute()))}"


def patch_words(path: Path | None, patch: Patch) -> str:
    """What a user must know of a patch that was written."""
    if path is not None:
        path = Path(from_here(path))
    if patch.text:
        names = ", ".join(patch.files)
        where = "" if path is None else f" -> {path}"
        lines = [f"patch for {names}{where}"]
        if path is not None:
            lines.append(f"apply it: {apply_words(patch, path)}")
    else:
        lines = ["nothing to apply: no line of the application's files is changed"]
    lines += [f"not in the patch: {each}" for each in patch.unmapped]
    lines += patch.notes
    return "\n".join(lines)
