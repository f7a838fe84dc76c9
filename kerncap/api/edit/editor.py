"""The user's editor: in its own window, in a split of tmux, or in this terminal until it ends."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kerncap import child
from kerncap.errors import UsageError

# They open a window (or a tab of one that is open) and need no terminal.
_WINDOWED = (
    "code", "code-insiders", "codium", "cursor", "windsurf", "subl", "sublime_text", "atom", "zed",
    "zeditor", "gedit", "gnome-text-editor", "kate", "kwrite", "mousepad", "xed", "pluma", "geany",
    "gvim", "mvim", "xemacs", "xdg-open", "open", "charm", "pycharm", "clion", "idea", "fleet",
    "notepadqq", "lapce", "neovide",
)  # fmt: skip
_USUAL = ("nano", "vim", "vi")
_WIDE = 170  # columns: enough for code and a table side by side


@dataclass(frozen=True)
class Editor:
    """``words`` of the command; ``place`` is "window", "tmux" or "terminal"."""

    words: tuple[str, ...]
    place: str

    def start(self, file: Path) -> subprocess.Popen[bytes] | None:
        """Open ``file``; the process if it has this terminal. Raises UsageError if it can't start."""
        command = [*self.words, str(file)]
        try:
            if self.place == "terminal":
                return child.editor(command, window=False)
            if self.place == "tmux":
                _run_split(command, file.parent)
                return None
            child.editor(command, window=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(f"{shlex.join(command)}: can't be started: {error}") from error
        return None


def chosen(environment: Mapping[str, str] = os.environ) -> Editor:
    """$VISUAL, else $EDITOR, else a usual editor. Raises UsageError if no editor is found."""
    text = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"$VISUAL or $EDITOR is `{text}`: {error}") from error
    if not words:
        usual = next((name for name in _USUAL if child.find(name)), None)
        if usual is None:
            raise UsageError("no editor: set $VISUAL or $EDITOR, or use --watch and open the file yourself")
        words = [usual]
    return Editor(tuple(words), _place(words, environment))


def _place(words: list[str], environment: Mapping[str, str]) -> str:
    name = os.path.basename(words[0])
    display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    in_terminal = {"-nw", "-t", "--tty", "--no-window-system"} & set(words)
    if name in _WINDOWED or (name in ("emacs", "emacsclient") and display and not in_terminal):
        return "window"
    # An unknown one may want the terminal: it gets it, and gives it back at once if it does not.
    return "tmux" if environment.get("TMUX") and child.find("tmux") else "terminal"


def _run_split(command: list[str], folder: Path) -> None:
    """The editor in a new pane before this one, which keeps what it needs for a table."""
    width = shutil.get_terminal_size().columns
    shape = ["-h", "-l", "55%"] if width >= _WIDE else ["-v", "-l", "60%"]
    command = [child.program(command[0]), *command[1:]]
    words = [child.program("tmux"), "split-window", "-b", *shape, "-c", str(folder.absolute())]
    child.run([*words, shlex.join(command)], timeout=10, check=True)
