"""Writes manifest.schema.json and range.schema.json: `python -m kerncap.format.export_schema`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kerncap.format import schema
from kerncap.format.short_json import short_json

SCHEMA_FILE = Path(__file__).with_name("manifest.schema.json")
RANGE_SCHEMA_FILE = SCHEMA_FILE.with_name("range.schema.json")


def schema_text() -> str:
    """The JSON schema (2020-12) of a reproducer's manifest.json."""
    return _text(schema.Manifest, "a kerncap reproducer")


def range_schema_text() -> str:
    """The JSON schema (2020-12) of a range's manifest.json."""
    return _text(schema.RangeManifest, "a range of launches")


def _text(manifest: type[schema.Manifest | schema.RangeManifest], of: str) -> str:
    document = msgspec.json.schema(manifest)
    version = f"{schema.FORMAT_MAJOR}.{schema.FORMAT_MINOR}"
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"manifest.json of {of}, version {version}",
        "description": "Generated from kerncap/format/schema.py; FORMAT.md has the rules that span objects.",
    }
    return short_json({**head, **document}) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    RANGE_SCHEMA_FILE.write_text(range_schema_text(), encoding="utf-8")
