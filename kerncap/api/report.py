"""`report`: a reproducer as one HTML page, with what other commands found out. Nothing is executed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.api.beside import beside
from kerncap.api.inspect import inspect
from kerncap.api.sharing.private import Asked, Private, private_parts, scanner
from kerncap.errors import KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.format.private import Finding, Scanner, redacted
from kerncap.regular_file import read_regular
from kerncap.report.html import Material, render
from kerncap.report.html.results import checked, told

MAX_RESULT_BYTES = 64 << 20
_SUFFIXES = (".html", ".htm")
Results = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Report:
    """A page that was written. ``results``: which commands' documents it shows; ``left_out``: what it has no
    room for; ``findings``: private places that stayed, ``redacted`` those that were filled up.
    """

    path: Path
    size_bytes: int
    kernel: str
    results: tuple[str, ...]
    left_out: tuple[str, ...]
    findings: tuple[Finding, ...]
    redacted: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "path": str(self.path),
            "written": True,
            "reason": None,
            "size_bytes": self.size_bytes,
            "kernel": self.kernel,
            "results": list(self.results),
            "left_out": list(self.left_out),
            "findings": [one.as_dict() for one in self.findings],
            "redacted": [one.as_dict() for one in self.redacted],
        }


def report(
    path: Path | str,
    output: Path | str | None = None,
    *,
    results: Sequence[Path | str] = (),
    redact_kinds: Collection[str] = (),
    allow: Collection[str] = (),
    sanitize: bool = True,
) -> Report:
    """Write the page of the reproducer at ``path``; all digests are checked on the way.

    ``output``: by default the folder's name with ``.html`` in the working directory; a page that is there is
    replaced. ``results``: files with what other commands print with ``--json`` (verify, replay, replay
    --limits, tune, sanitize, profile). ``sanitize``: where the reproducer has the kernel's TTIR and no
    document of the sanitizer is given, its answer is made here, which executes nothing. ``redact_kinds`` (of
    `sharing.KINDS`) fills such places up in the page, ``allow`` leaves them.
    Raises `sharing.Private` if something private is left, FormatError, UsageError, KerncapError.
    """
    asked = Asked.of(redact_kinds, allow)
    path = Path(path)
    folder = path.resolve().name
    target = beside(path, output, f"{folder}.html")
    if target.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{target}: a report is an HTML page; give it a name that ends with .html")
    look = scanner()
    with Reproducer.open(path) as reproducer:
        documents = _read_results(reproducer, results)
        why = _sanitize(path, reproducer, documents, sanitize)
        facts = {**inspect(path), "path": folder}
        found = private_parts(reproducer) + _private_results(look, documents)
        filled = [one for one in found if one.kind in asked.redact]
        kept = [one for one in found if one.kind not in asked.redact]
        stopping = [one for one in kept if one.kind not in asked.allow]
        if stopping:
            raise Private(path, stopping)

        def clean(name: str, data: bytes) -> bytes:
            if not asked.redact:
                return data
            return redacted(data, [one for one in look.scan(name, data) if one.kind in asked.redact])

        material = Material(
            reproducer, _cleaned(look, asked, "the manifest", facts), clean,
            {k: [_cleaned(look, asked, k, d) for d in all_] for k, all_ in documents.items()},
            not_sanitized=clean("", why.encode("utf-8", "replace")).decode("utf-8", "replace"),
        )  # fmt: skip
        page = render(material)
    _write(target, page)
    return Report(
        target, len(page), reproducer.manifest.kernel.name, tuple(documents), tuple(material.left_out),
        tuple(kept), tuple(filled),
    )  # fmt: skip


def _read_results(reproducer: Reproducer, files: Sequence[Path | str]) -> Results:
    found: Results = {}
    kernel = reproducer.manifest.kernel
    for file in map(Path, files):
        data = read_regular(file, MAX_RESULT_BYTES)
        kind, document = told(str(file), data)
        result = checked(kind, document, str(file))
        named = {one.kernel for one in result.launches} if kind == "sanitize" else {result.kernel}
        # ncu writes a kernel's name as C++ has it, so a profile is not told by its name.
        if kind != "profile" and named and not named & {kernel.name, kernel.qualified_name}:
            raise UsageError(
                f"{file}: about {', '.join(sorted(named)[:3])}; the reproducer holds {kernel.name}"
            )
        found.setdefault(kind, []).append(document)
    return found


def _sanitize(path: Path, reproducer: Reproducer, documents: Results, asked: bool) -> str:
    """Adds the sanitizer's document where it can be made without executing anything; else says why not."""
    if "sanitize" in documents:
        return ""
    if reproducer.manifest.kernel.language != "triton":
        return "the sanitizer reads Triton kernels"
    if not asked:
        return "not asked for"
    if reproducer.code("ttir") is None:
        return "the reproducer holds no TTIR (captured under the interpreter): its source would have to run"
    from kerncap.api.sanitize import sanitize_reproducer
    from kerncap.report import sanitize_json

    try:
        made = sanitize_json.document(sanitize_reproducer(path))
    except KerncapError as error:
        return f"the sanitizer could not judge it: {error}"
    # As if it had been read: its tuples are lists, and its numbers are those that JSON has.
    documents["sanitize"] = [json.loads(json.dumps(made))]
    return ""


def _private_results(look: Scanner, documents: Results) -> list[Finding]:
    return [
        one
        for kind, all_ in documents.items()
        for document in all_
        for one in look.scan(f"result of {kind}", _bytes(document))
    ]


def _cleaned(look: Scanner, asked: Asked, name: str, document: dict[str, Any]) -> dict[str, Any]:
    """The document with its private places filled up; still the same JSON otherwise."""
    data = _bytes(document)
    filled = redacted(data, [one for one in look.scan(name, data) if one.kind in asked.redact])
    left = [one for one in look.scan(name, filled) if one.kind in asked.redact]
    if left:
        raise KerncapError(f"{left[0].what} in {name} could not be filled up")
    found: dict[str, Any] = json.loads(filled)
    return found


def _bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def _write(target: Path, page: bytes) -> None:
    """In one step: who has an older page open never reads half of a new one."""
    temporary = target.with_name(f".{target.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(page)
        os.replace(temporary, target)
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
