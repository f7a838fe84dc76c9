"""Writes manifest.schema.json from the structs: `python -m kerncap.format.export_schema [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from kerncap.format import schema
from kerncap.format.short_json import short_json

SCHEMA_FILE = Path(__file__).with_name("manifest.schema.json")


def schema_text() -> str:
    """The JSON schema (2020-12) of manifest.json."""
    document = msgspec.json.schema(schema.Manifest)
    version = f"{schema.FORMAT_MAJOR}.{schema.FORMAT_MINOR}"
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"manifest.json of a kerncap reproducer, version {version}",
        "description": "Generated from kerncap/format/schema.py; FORMAT.md has the rules that span objects.",
    }
    return short_json({**head, **document}) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_FILE
    target.write_text(schema_text(), encoding="utf-8")
