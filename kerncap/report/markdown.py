"""A reproducer as Markdown: for an issue, within GitHub's limit, or as the task to make it faster."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kerncap.printable import printable, visible
from kerncap.report import inspect_text

MOST_BYTES = 65_536  # of an issue or a comment on GitHub: characters there, bytes here, which are no fewer
_OWN_BYTES = 1_500  # headings, commands and fences
_SUFFIXES = {"triton": "py", "cuda": "cu", "hip": "hip"}
Document = dict[str, Any]


def render(
    facts: Document, results: Mapping[str, Sequence[Document]], source: str | None, archive: str
) -> tuple[str, tuple[str, ...]]:
    """The text, and what it has no room for. ``archive``: the name under which the reproducer is attached."""
    manifest = facts["manifest"]
    lines = [f"### {_inline(manifest['kernel']['name'])} on {_inline(manifest['device']['name'])}", ""]
    verdicts = [
        f"- `kerncap {kind}`: {_inline(_said(document))}"
        for kind, all_ in results.items()
        for document in all_
    ]
    lines += [*verdicts[:20], ""] if verdicts else []
    attached, folder = (shlex.quote(visible(name)) for name in (archive, archive.removesuffix(".zip")))
    lines += ["```console", f"$ kerncap unpack {attached}", f"$ kerncap verify {folder}", "```"]
    text = "\n".join(lines) + "\n"
    left_out: list[str] = []
    parts = (("Launch", "", inspect_text.render(facts)), ("Source", "python", source or ""))
    for number, (title, language, body) in enumerate(parts):
        room = (MOST_BYTES - _OWN_BYTES - len(text.encode())) // (len(parts) - number)
        shown = _cut(printable(body), room)
        if shown != printable(body):
            left_out.append(f"{title.lower()}: {len(body) - len(shown):,} of {len(body):,} characters")
        if shown:
            text += f"\n<details><summary>{title}</summary>\n\n{_fenced(shown, language)}\n</details>\n"
    if left_out:
        text += f"\nNot in this text: {'; '.join(left_out)}.\n"
    return text, tuple(left_out)


def render_task(
    facts: Document, results: Mapping[str, Sequence[Document]], source: str | None, folder: str
) -> str:
    """What one needs to make the kernel faster, and the command that judges. Nothing is cut.

    ``folder``: the reproducer's name.
    """
    manifest = facts["manifest"]
    name, language = _inline(manifest["kernel"]["name"]), manifest["kernel"]["language"]
    file = f"candidate.{_SUFFIXES.get(language, 'py')}"
    repro = shlex.quote(visible(folder))
    commands = [
        f"$ kerncap verify {repro} --candidate {file} --stages all",
        f"$ kerncap replay {repro} --candidate {file} --limits",
    ]
    settings = (
        "A line `# kerncap: BLOCK=256 num_warps=8` in it asks for another launch, with other constants.\n"
    )
    text = (
        f"# Make {name} faster\n\n"
        f"Write `{file}`: the kernel {name} with the same name and parameters, for the launch below.\n"
        f"{settings if language == 'triton' else ''}\n"
        f"{_fenced(chr(10).join(commands), 'console')}\n"
        "The first command judges: PASS is right, FAIL is wrong, and UNDECIDED is neither, with the reason.\n"
        "Its last stage compares the times. "
        "The second, on a GPU, tells how far it is from the device's limits.\n"
        f"\n## Launch\n\n{_fenced(printable(inspect_text.render(facts)), '')}"
    )
    if source is not None:
        text += f"\n## Source\n\n{_fenced(printable(source), 'python' if language == 'triton' else '')}"
    for kind, documents in results.items():
        for document in documents:
            body = printable(json.dumps(document, indent=1, ensure_ascii=False))
            text += f"\n## Result of kerncap {kind}\n\n{_fenced(body, 'json')}"
    return text


def _said(document: Document) -> str:
    result = str(document.get("result", "")).upper()
    return f"{result} ({document['summary']})".lstrip() if document.get("summary") else result or "done"


def _cut(text: str, most_bytes: int) -> str:
    """Whole lines of its beginning."""
    data = text.encode()
    if len(data) <= most_bytes:
        return text
    return data[: max(0, most_bytes)].decode("utf-8", "ignore").rpartition("\n")[0]


def _fenced(text: str, language: str) -> str:
    """As code, also if it holds rows of backticks."""
    longest = max((len(row) for row in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _inline(text: str) -> str:
    """As code within a line: no mention, link or tag."""
    return f"`{' '.join(printable(text)[:600].replace('`', chr(39)).split()) or '-'}`"
