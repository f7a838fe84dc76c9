"""manifest.json and manifest.sha256: which format and version they are of, and whether they are whole."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from kerncap.format import schema
from kerncap.format.allowed_names import MANIFEST_DIGEST_PATH, MANIFEST_PATH
from kerncap.format.documents import decode_json, error_at
from kerncap.format.stored_files import format_error, read_file
from kerncap.format.validate import ManifestProblem, validate, version_message


def decode_manifest(data: bytes, where: Path) -> schema.Manifest:
    """The manifest in ``data``, all rules checked. Raises FormatError."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise format_error(where, error.start, "not UTF-8") from error
    check_format(data, where, schema.FORMAT_NAME)
    manifest: schema.Manifest = decode_json(data, where, schema.Manifest)
    try:
        validate(manifest)
    except ManifestProblem as problem:
        raise error_at(data, where, problem.steps, problem.message) from problem
    return manifest


def check_manifest_digest(path: Path, root_fd: int, found_sha256: str) -> None:
    """Compare the SHA-256 of manifest.json with manifest.sha256. Raises FormatError."""
    # A flipped byte inside a name or a number is still a valid manifest: only this tells.
    where = path / MANIFEST_DIGEST_PATH
    line = read_file(path, root_fd, MANIFEST_DIGEST_PATH, 256)
    found = re.fullmatch(rb"([0-9a-f]{64})  manifest\.json\n", line)
    if found is None:
        raise format_error(where, 0, "not '<SHA-256>  manifest.json'")
    expected = found[1].decode()
    if expected != found_sha256:
        message = f"damaged: SHA-256 is {found_sha256[:16]}…, {MANIFEST_DIGEST_PATH} says {expected[:16]}…"
        raise format_error(path / MANIFEST_PATH, 0, message)


class _VersionOnly(msgspec.Struct):
    format: str
    version: schema.Version


def format_of(data: bytes, where: Path) -> str:
    """The format that a manifest names. Raises FormatError for a major version that is not known."""
    head = decode_json(data, where, _VersionOnly)
    if head.version.major != schema.FORMAT_MAJOR:
        raise error_at(data, where, ("version", "major"), version_message(head.version.major))
    return str(head.format)


def check_format(data: bytes, where: Path, expected: str) -> None:
    """Look at format and version alone: of another version nothing else can be expected to fit."""
    found = format_of(data, where)
    if found != expected:
        raise error_at(data, where, ("format",), f"format {found!r}; expected {expected!r}")
