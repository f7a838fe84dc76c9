"""Writes the schemas: ``python -m kerncap.api.documents [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

from kerncap.api.documents.schemas import DOCUMENTS, schema_text

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schemas")
    folder.mkdir(parents=True, exist_ok=True)
    for name in DOCUMENTS:
        (folder / f"{name}.json").write_text(schema_text(name), encoding="utf-8")
