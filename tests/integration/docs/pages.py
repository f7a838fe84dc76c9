"""A page's commands: its fenced blocks with ``$ `` lines, and what the page shows below each.

    ```console
    $ kerncap verify kerncap-out/softmax_kernel-5c583801
    Result: PASS (58,368 bytes identical)
    ```

A block that can't be run here says why: ``{.console not-run="needs an NVIDIA GPU"}``.
If times order what is shown, ``{.console either-first="one|other, by one|by other"}`` allows it with these
texts exchanged as well.
``<!-- given: softmax -->`` on a line of its own: the page begins with a reproducer of that sample in
``kerncap-out``, as if it had been captured above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^( *)(`{3,})(.*)$")
_NOT_RUN = re.compile(r"not-run=\"([^\"]+)\"")
_EITHER_FIRST = re.compile(r"either-first=\"([^\"]+)\"")
_GIVEN = re.compile(r"^<!-- given: ([\w, ]+) -->$")
_COMMAND = re.compile(r"^(?:\$ )?(?:kerncap|pip|make|pytest|python3?|git bisect|export|mkdocs) ")


@dataclass(frozen=True)
class Command:
    """One command (its lines joined) and the lines that are shown below it."""

    line: int
    text: str
    shown: tuple[str, ...]
    exchanged: tuple[str, ...]  # what may be shown instead

    @property
    def may_fail(self) -> bool:
        """Whether the page shows that the answer is no: a verdict, or an error of kerncap's."""
        last = self.shown[-1] if self.shown else ""
        return last.startswith(("Result: ", "kerncap: ")) and not last.startswith("Result: PASS")


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    lines: tuple[str, ...]
    not_run: str | None
    either_first: tuple[tuple[str, str], ...] = ()

    @property
    def has_prompts(self) -> bool:
        return any(line.startswith("$ ") for line in self.lines)

    @property
    def looks_like_commands(self) -> bool:
        return self.language in ("", "console", "bash", "sh", "shell") and any(
            _COMMAND.match(line) for line in self.lines
        )


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page."""
    found: list[Block] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        match = _FENCE.match(lines[number])
        if match is None:
            number += 1
            continue
        indent, ticks, info = match.groups()
        end = number + 1
        while end < len(lines) and lines[end].strip() != ticks:
            end += 1
        inside = tuple(line.removeprefix(indent) for line in lines[number + 1 : end])
        why = _NOT_RUN.search(info)
        language = re.match(r"\{?\s*\.?([\w+-]*)", info.strip())
        either = _EITHER_FIRST.search(info)
        pairs = [pair.split("|") for pair in either[1].split(", ")] if either else []
        found.append(
            Block(
                number + 1, language[1] if language else "", inside, why[1] if why else None,
                tuple((one, other) for one, other in pairs),
            )
        )  # fmt: skip
        number = end + 1
    return found


def commands(text: str) -> list[Command]:
    """What is run of a page, in order."""
    found: list[Command] = []
    for block in blocks(text):
        if block.not_run is None and block.has_prompts:
            found += _of(block)
    return found


def given(text: str) -> tuple[str, ...]:
    """Samples of which the page begins with a reproducer."""
    names = [match[1] for line in text.splitlines() if (match := _GIVEN.match(line.strip()))]
    return tuple(name.strip() for each in names for name in each.split(","))


def unmarked(text: str) -> list[Block]:
    """Blocks with commands that are neither run nor say why not."""
    return [
        block
        for block in blocks(text)
        if block.looks_like_commands and block.not_run is None and not block.has_prompts
    ]


def _of(block: Block) -> list[Command]:
    found: list[Command] = []
    number = 0
    while number < len(block.lines):
        line = block.lines[number]
        if not line.startswith("$ "):
            raise ValueError(f"line {block.line + number + 1}: no command before {line!r}")
        begin, text = number, line.removeprefix("$ ")
        while text.endswith("\\") or _open_heredoc(text):
            number += 1
            text += "\n" + re.sub(r"^> ?", "", block.lines[number])
        number += 1
        shown = []
        while number < len(block.lines) and not block.lines[number].startswith("$ "):
            shown.append(block.lines[number])
            number += 1
        instead = tuple(_exchanged(line, block.either_first) for line in shown)
        found.append(Command(block.line + begin + 1, text, tuple(shown), instead))
    return found


def _exchanged(line: str, pairs: tuple[tuple[str, str], ...]) -> str:
    other = dict([*pairs, *((b, a) for a, b in pairs)])
    return re.sub("|".join(map(re.escape, other)), lambda found: other[found[0]], line) if other else line


def _open_heredoc(text: str) -> bool:
    match = re.search(r"<<-?\s*'?(\w+)'?", text.split("\n")[0])
    return match is not None and match[1] not in text.split("\n")[1:]


class Reproducers:
    """Which folder stands for ``NAME-5c583801`` of the page: by the kernel, in order of appearance."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def translate(self, text: str, folder: Path) -> str:
        """``text`` with the hashes of the page replaced by those that there are in ``folder``."""

        def known_as(match: re.Match[str]) -> str:
            place, name, kernel = match[1], f"{match[2]}-{match[3]}", match[2]
            return place + self._known_as(name, kernel, folder, place)

        return re.sub(r"((?:[\w.-]+/)*)\b(\w+)-([0-9a-f]{8})\b", known_as, text)

    def _known_as(self, name: str, kernel: str, folder: Path, place: str) -> str:
        if name not in self._known:
            there = folder / place
            found = there.glob(f"{kernel}-????????") if place and there.is_dir() else ()
            paths = sorted(
                list(found) or folder.rglob(f"{kernel}-????????"), key=lambda path: path.stat().st_ctime_ns
            )
            new = [path.name for path in paths if path.name not in self._known.values()]
            new = new or [path.name for path in paths if path.parent == there]  # another copy of the same
            if not new:
                return name
            self._known[name] = new[0]
        return self._known[name]


def script(command: str) -> str:
    """The words of one command for bash, with its end marked by its status on stdout."""
    return f"{command}\nprintf '\\n\\036%d\\n' $?\n"
