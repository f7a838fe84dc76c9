"""Reproducers of a stranger: every text in them that may be any text holds what a terminal should not see."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kerncap.errors import KerncapError
from kerncap.format import schema
from kerncap.format.documents import decode_json
from kerncap.format.validate import ManifestProblem, validate
from tests.unit.format.damage import write_manifest

GOLDEN = Path(__file__).parents[2] / "golden"
CHARACTERS = {
    "esc": "\x1b",
    "bel": "\x07",
    "backspace": "\b",
    "cr": "\r",
    "null": "\0",
    "form feed": "\f",
    "del": "\x7f",
    "csi": "\x9b",
    "osc": "\x9d",
    "next line": "\x85",
    "shift out": "\x0e",
    "right-to-left override": "\u202e",
    "left-to-right isolate": "\u2066",
    "pop isolate": "\u2069",
    "left-to-right mark": "\u200e",
    "right-to-left mark": "\u200f",
    "Arabic letter mark": "\u061c",
    "zero width space": "\u200b",
    "zero width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "soft hyphen": "\xad",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "tag letter": "\U000e0041",
    "variation selector": "\ufe0f",
    "variation selector 17": "\U000e0100",
    "Hangul filler": "\u3164",
    "interlinear anchor": "\ufff9",
    "private use": "\ue000",
}
# With what each would do: a title, a colour, a cleared screen, an answer that is typed, another line.
ALL = "\x1b]0;t\x07\x1b[31m\x1b[2J\x9b6n\rResult: PASS" + "".join(CHARACTERS.values())


def hostile_copy(version: str, parent: Path, text: str = ALL) -> Path:
    """The golden reproducer of ``version`` with ``text`` at the end of its texts, and in its files."""
    folder = parent / f"golden-{version}"
    shutil.copytree(GOLDEN / version, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for stored in _stored(manifest):
        path = folder / stored["path"]
        data = _spoiled(path.suffix, path.read_bytes(), text)
        path.write_bytes(data)
        stored.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    count = _spoil_texts(manifest, text)
    assert count > 10, "hardly any text of the manifest took it"
    write_manifest(folder, json.dumps(manifest).encode())
    (folder / "checks.json").unlink(missing_ok=True)  # it is of the other manifest
    for left in folder.glob("write_set-*"):
        left.unlink()
    return folder


def _stored(manifest: Any) -> Iterator[dict[str, Any]]:
    yield from (code["file"] for code in manifest.get("code", ()))
    source = manifest.get("source") or {}
    yield from filter(None, (source.get("file"), *source.get("originals", ())))


def _spoiled(suffix: str, data: bytes, text: str) -> bytes:
    """A file that is still what it is."""
    line = text.replace("\n", " ").replace("\r", " ").replace("\0", "").encode()
    if suffix == ".py":  # in a line of its own, and on a line that a finding shows
        return data.replace(b"mask=offsets < n)", b"mask=offsets < n)  # " + line) + b"# " + line + b"\n"
    if suffix in (".cu", ".h", ".hip", ".ptx"):
        return data + b"// " + line + b"\n"
    if suffix == ".ttir":
        return data.replace(b'"/app/kernels.py"', b'"/app/kernels.py' + line.replace(b'"', b"'") + b'"')
    return data


def _spoil_texts(manifest: dict[str, Any], text: str) -> int:
    """Each text and each key, one after the other; what the format refuses stays as it was."""
    count = 0
    for container, key in list(_leaves(manifest)):
        before = container[key]
        container[key] = before + text
        if _is_valid(manifest):
            count += 1
        else:
            container[key] = before
    for container in list(_mappings(manifest)):
        for key in list(container):
            value = container.pop(key)
            container[key + text] = value
            if _is_valid(manifest):
                count += 1
            else:
                del container[key + text]
                container[key] = value
    return count


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, str):
            # A file has its name on the disk as well.
            if key not in ("path", "sha256", "unit", "stored", "created", "stage", "entry", "arch"):
                yield value, key
        elif isinstance(item, dict | list):
            yield from _leaves(item)


def _mappings(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    places: tuple[Callable[[], Any], ...] = (
        lambda: manifest["environment"],
        lambda: manifest["compiled"],
        lambda: manifest["platform"]["packages"],
        lambda: manifest["launch"]["options"],
        lambda: manifest["launch"]["grid_source"]["bindings"],
    )
    for place in places:
        try:
            yield place()
        except KeyError:
            pass


def _is_valid(manifest: dict[str, Any]) -> bool:
    try:
        validate(decode_json(json.dumps(manifest).encode(), Path("manifest.json"), schema.Manifest))
    except (KerncapError, ManifestProblem):
        return False
    return True
