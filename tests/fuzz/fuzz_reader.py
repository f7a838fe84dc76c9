"""Fuzz target of the reader: `python tests/fuzz/fuzz_reader.py [libFuzzer options]`, needs atheris.

The input's first byte says what it stands for: the manifest, the memory index, or the seed of a
structured mutation. Anything but a FormatError that comes out is a finding.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

with atheris.instrument_imports(include=["kerncap.format", "kerncap.api", "kerncap.report"]):
    from kerncap.errors import FormatError
    from tests.fuzz.mutate import one_case, read_all
    from tests.unit.format.damage import GOLDEN, write_manifest

# libFuzzer ends the process without cleaning up: one folder, used again.
PARENT = Path(__file__).parents[2] / "build" / "fuzz" / "reader-work"


def test_one_input(data: bytes) -> None:
    """What libFuzzer calls."""
    if not data:
        return
    if data[0] % 3 == 0:
        one_case(data[1:].hex(), PARENT)
        return
    folder = PARENT / "repro"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(GOLDEN, folder)
    manifest = data[1:]
    if data[0] % 3 == 1:
        (folder / "memory/index").write_bytes(data[1:])
        document = json.loads((folder / "manifest.json").read_bytes())
        digest = hashlib.sha256(data[1:]).hexdigest()
        document["memory"]["index"].update(size=len(data) - 1, sha256=digest)
        manifest = json.dumps(document).encode()
    write_manifest(folder, manifest)
    try:
        read_all(folder)
    except FormatError:
        pass


def main() -> None:
    """Start from the golden file's own manifest and index."""
    corpus = PARENT / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "manifest").write_bytes(b"\x02" + (GOLDEN / "manifest.json").read_bytes())
    (corpus / "index").write_bytes(b"\x01" + (GOLDEN / "memory/index").read_bytes())
    (corpus / "seed").write_bytes(b"\x00golden")
    atheris.Setup([*sys.argv, str(corpus)], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
