"""`report`: a reproducer as one HTML page, with what other commands found out. Nothing is executed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.api.inspect import inspect
from kerncap.api.output_place import beside
from kerncap.api.pack.shareable import shareable
from kerncap.errors import BackendUnavailable, KerncapError, UsageError
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.folder import is_range
from kerncap.format.private import Finding, Scrubber
from kerncap.regular_file import read_regular
from kerncap.report import markdown
from kerncap.report.documents.sharing import ReportDocument
from kerncap.report.html import Material, render
from kerncap.report.html.results import checked, told
from kerncap.report.html.timeline_lanes import condensed
from kerncap.whole_files import write

MAX_RESULT_BYTES = 64 << 20
_SUFFIXES = (".html", ".htm")
Results = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Report:
    """A page that was written. ``results``: which commands' documents it shows; ``left_out``: what it has no
    room for; ``findings``: private places, and what became of them.
    """

    path: Path
    size_bytes: int
    kernel: str
    results: tuple[str, ...]
    left_out: tuple[str, ...]
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        found = {**vars(self), "path": str(self.path)}
        return ReportDocument(written=True, reason=None, **found).as_dict()


def report(
    path: Path | str,
    output: Path | str | None = None,
    *,
    results: Sequence[Path | str] = (),
    keep_private: Collection[str] = (),
    sanitize: bool = True,
    as_markdown: bool = False,
    as_task: bool = False,
) -> Report:
    """Write the page of the reproducer or range at ``path``; all digests are checked on the way.

    ``output``: by default the folder's name with ``.html`` or ``.md`` in the working directory; a page that
    is there is replaced. ``results``: files with what other commands print with ``--json`` (verify, replay,
    replay --limits, tune, sanitize, profile), or the trace of list --timeline. ``sanitize``: where the
    reproducer has the kernel's TTIR and no document of the sanitizer is given, its answer is made here, which
    executes nothing. ``as_markdown``: a text for an issue instead of the page; ``as_task``: one for who is to
    make the kernel faster.
    ``keep_private``: as for `pack`. Raises `sharing.Private` if something private can't be taken out,
    FormatError, UsageError, KerncapError.
    """
    path = Path(path)
    of_range = is_range(path)
    if of_range and results:
        raise UsageError("--with: for one launch; `kerncap slice` makes a reproducer of one")
    folder = path.resolve().name
    if as_markdown and as_task:
        raise UsageError("--md, --task: one at a time; leave one out")
    is_text = as_markdown or as_task
    if of_range and is_text:
        raise UsageError("--md, --task: for one launch; `kerncap slice` makes a reproducer of one")
    target = beside(path, output, f"{folder}.{'md' if is_text else 'html'}")
    if is_text and target.suffix.lower() != ".md":
        raise UsageError(f"{target}: --md and --task write Markdown; give it a name that ends with .md")
    if not is_text and target.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{target}: a report is an HTML page; give it a name that ends with .html")
    if of_range:
        return _range(path, target, folder, keep_private)
    with (
        scratch.folder("report") as made,
        shareable(path, keep_private, made.path, Reproducer.open) as shared,
    ):
        reproducer, scrubber = shared.reproducer, shared.scrubber
        documents = _read_results(reproducer, results, is_text)
        why = _sanitize(path, reproducer, documents, sanitize)
        facts = {**inspect(reproducer.path), "path": folder}
        material = Material(
            reproducer, facts, lambda _name, data: data,
            {kind: [_cleaned(scrubber, kind, one) for one in all_] for kind, all_ in documents.items()},
            not_sanitized=_cleaned(scrubber, "sanitize", why),
        )  # fmt: skip
        findings = tuple(scrubber.findings)
        if as_markdown:
            text, left_out = markdown.render(
                facts, material.results, reproducer.source_text(), f"{folder}.zip"
            )
            page = text.encode("utf-8", "replace")
        elif as_task:
            task = markdown.render_task(facts, material.results, reproducer.source_text(), folder)
            page, left_out = task.encode("utf-8", "replace"), ()
        else:
            page = render(material)
            left_out = tuple(material.left_out)
    write(target, page)
    return Report(
        target, len(page), reproducer.manifest.kernel.name, tuple(documents), left_out,
        findings,
    )  # fmt: skip


def _range(path: Path, target: Path, folder: str, keep_private: Collection[str]) -> Report:
    """The page of a range."""
    with (
        scratch.folder("report") as made,
        shareable(path, keep_private, made.path, LaunchRange.open) as shared,
    ):
        from kerncap.api.range_flow import inspect_range
        from kerncap.api.range_limits import range_limits
        from kerncap.report.html import range_page

        facts, limits = inspect_range(shared.reproducer.path), None
        with contextlib.suppress(BackendUnavailable):  # the notes of `inspect` say why
            limits = range_limits(shared.reproducer.path).as_dict()
        page = range_page.render(facts, limits, folder)
        kernel, findings = shared.reproducer.stem, shared.findings
    write(target, page)
    return Report(target, len(page), kernel, (), (), findings)


def _read_results(reproducer: Reproducer, files: Sequence[Path | str], as_text: bool) -> Results:
    found: Results = {}
    kernel = reproducer.manifest.kernel
    for file in map(Path, files):
        data = read_regular(file, MAX_RESULT_BYTES)
        kind, document = told(str(file), data)
        result = checked(kind, document, str(file))
        if kind == "list":
            drawn = condensed(result, {kernel.name, kernel.qualified_name}, with_lanes=not as_text)
            if drawn is None:
                raise UsageError(f"{file}: has no launch of {kernel.name}; give a trace of its program")
            found.setdefault(kind, []).append(drawn)
            continue
        named = {one.kernel for one in result.launches} if kind == "sanitize" else {result.kernel}
        # ncu writes a kernel's name as C++ has it, so a profile is not told by its name.
        if kind != "profile" and named and not named & {kernel.name, kernel.qualified_name}:
            raise UsageError(
                f"{file}: about {', '.join(sorted(named)[:3])}; the reproducer holds {kernel.name}"
            )
        found.setdefault(kind, []).append(document)
    return found


def _sanitize(path: Path, reproducer: Reproducer, documents: Results, asked: bool) -> str:
    """Adds the sanitizer's document if it can be made without executing anything; else says why not."""
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
        documents["sanitize"] = [sanitize_json.document(sanitize_reproducer(path)).as_dict()]
    except KerncapError as error:
        return f"the sanitizer could not judge it: {error}"
    return ""


def _cleaned(scrubber: Scrubber, kind: str, value: Any) -> Any:
    """A result's document without what is private; still the same JSON otherwise."""
    if isinstance(value, str):
        data = scrubber.text(f"result of {kind}", value.encode("utf-8", "replace"))
        return data.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: _cleaned(scrubber, kind, inner) for key, inner in value.items()}
    return [_cleaned(scrubber, kind, inner) for inner in value] if isinstance(value, list) else value
