"""Texts of a reproducer that a client can read: manifest, source, README, compiled code, any listed file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from kerncap.errors import KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.mcp.allowed import Allowed
from kerncap.printable import printable

SCHEME = "kerncap"
FILE = "file"  # one that the manifest lists, by its name; no memory
PARTS = ("manifest", "source", "readme", "ttir", "ttgir", "llir", "ptx", FILE)
_LISTED = 50
_MIME = {"manifest": "application/json", "readme": "text/markdown"}


def template(part: str) -> str:
    return f"{SCHEME}://{part}/{{+repro}}" + ("{?name}" if part == FILE else "")


def mime(part: str) -> str:
    return _MIME.get(part, "text/plain")


def listed(allowed: Allowed) -> list[tuple[str, str]]:
    """(URI of the manifest, name) of reproducers in the roots and in their kerncap-out."""
    found: list[tuple[str, str]] = []
    for root in allowed.roots:
        for folder in (root, root / "kerncap-out"):
            for manifest in sorted(folder.glob("*/manifest.json"))[: _LISTED - len(found)]:
                try:
                    repro = allowed.path(str(manifest.parent), "repro")
                except UsageError:  # a link that leads out
                    continue
                path = quote(str(repro).lstrip("/"), errors="surrogateescape")
                found.append((f"{SCHEME}://manifest/{path}", printable(repro.name)))
    return found


def read(uri: str, allowed: Allowed, max_bytes: int) -> tuple[str, str]:
    """(text, MIME type) of a resource, from ``?offset=N`` on (characters), cut to ``max_bytes``.

    A path is absolute, or begins at the first root. Raises UsageError, FormatError.
    """
    split = urlsplit(uri)
    part = split.netloc
    if split.scheme != SCHEME or part not in PARTS:
        raise UsageError(f"{uri}: expected {SCHEME}://PART/REPRO, with PART one of {', '.join(PARTS)}")
    folder = _folder(unquote(split.path, errors="surrogateescape"), allowed)
    asked = parse_qs(split.query)
    offset, name = asked.get("offset", ["0"])[0], asked.get("name", [""])[0]
    if not offset.isdecimal():
        raise UsageError(f"{uri}: offset={offset}: expected a number of characters")
    text = _text(folder, part, name)
    begin = int(offset)
    shown = text[begin:].encode()[:max_bytes].decode("utf-8", "ignore")
    end = begin + len(shown)
    if end < len(text):
        shown += f"\n… {len(text) - end:,} more characters: read {_continued(uri, end)}\n"
    return shown, mime(part)


def _folder(path: str, allowed: Allowed) -> Path:
    """Absolute if that is a folder of a root, else relative to the first root."""
    relative = path.lstrip("/")
    for text in (relative, f"/{relative}"):
        try:
            folder = allowed.path(text, "repro")
        except UsageError:
            continue
        if folder.is_dir():
            return folder
    raise UsageError(f"{path}: no reproducer in the folders that this server was given")


def _continued(uri: str, offset: int) -> str:
    """The URI of what comes next."""
    split = urlsplit(uri)
    rest = {name: values[0] for name, values in parse_qs(split.query).items() if name != "offset"}
    return split._replace(query=urlencode({**rest, "offset": offset}, safe="/")).geturl()


def _text(folder: Path, part: str, name: str) -> str:
    with Reproducer.open(folder) as reproducer:
        if part == "manifest":
            text: str | None = reproducer.manifest_bytes.decode("utf-8", "replace")
        elif part == FILE:
            return _file(reproducer, name)
        elif part == "readme":
            readme = folder / "README.md"
            text = readme.read_text(encoding="utf-8", errors="replace") if _is_plain(readme) else None
        elif part == "source":
            text = reproducer.source_text()
        else:
            code = reproducer.code(part)
            text = code.decode("utf-8", "replace") if code is not None else None
    if text is None:
        raise KerncapError(f"{folder.name}: it holds no {part}")
    return text


def _file(reproducer: Reproducer, name: str) -> str:
    """Raises UsageError for what the manifest does not list, and for what holds no text."""
    listed = {each: file for each, file in reproducer.listed().items() if not each.startswith("memory/")}
    if name not in listed:
        raise UsageError(f"?name={name}: not a file of it; there are {', '.join(sorted(listed))}")
    try:
        return reproducer.file(listed[name]).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"?name={name}: {listed[name].size:,} bytes that are not text") from None


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
