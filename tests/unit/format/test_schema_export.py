"""The documents beside the code say what the code does."""

from __future__ import annotations

import re

from kerncap.format import memory_index, schema, size_limits, validate, write_set
from kerncap.format.export_schema import RANGE_SCHEMA_FILE, SCHEMA_FILE, range_schema_text, schema_text

FORMAT = " ".join(SCHEMA_FILE.with_name("FORMAT.md").read_text(encoding="utf-8").split())


def test_the_exported_schema_is_up_to_date() -> None:
    for file, text in ((SCHEMA_FILE, schema_text()), (RANGE_SCHEMA_FILE, range_schema_text())):
        assert file.read_text(encoding="utf-8") == text, "run: python -m kerncap.format.export_schema"


def test_format_md_names_this_version_and_these_limits() -> None:
    assert FORMAT.startswith(f"# The reproducer format, version {schema.FORMAT_MAJOR}.{schema.FORMAT_MINOR} ")
    for text, bytes_ in (
        ("manifest 16 MiB", size_limits.MAX_MANIFEST_BYTES),
        ("`memory/index` 256 MiB", size_limits.MAX_INDEX_BYTES),
        ("other listed files 4096 MiB", size_limits.MAX_FILE_BYTES),
        ("checks.json 1 MiB", size_limits.MAX_CHECKS_BYTES),
        ("write set 1024 MiB", size_limits.MAX_WRITE_SET_BYTES),
    ):
        found = re.search(r"(\d+) MiB", text)
        assert found is not None
        assert int(found[1]) << 20 == bytes_
        assert text in FORMAT
    assert f"{schema.MAX_RANGE_LAUNCHES:,} launches at most" in FORMAT
    assert f"sum of region sizes 2^{size_limits.MAX_REGIONS_BYTES.bit_length() - 1}" in FORMAT
    assert f"nested deeper than {validate.MAX_VALUE_DEPTH}" in FORMAT
    assert f"one {memory_index.ROW.itemsize}-byte record" in FORMAT
    assert f"one {memory_index.ENTRY.itemsize}-byte record" in FORMAT
    assert f"writers of this version: {schema.CHUNK_BYTES >> 10} KiB" in FORMAT
    assert f"pieces of {write_set.PIECE_BYTES >> 20} MiB" in FORMAT
