"""The documents that ``--json`` prints, as types: the one source of their JSON Schemas.

The commands build them as plain data; a test checks every command's real output against these types.
`python -m kerncap.report.documents` rewrites ``docs/schemas``; ``kerncap schema`` prints one.
"""

from __future__ import annotations

from kerncap.report.documents.schemas import DOCUMENTS, document_type, schema, schema_text

__all__ = ["DOCUMENTS", "document_type", "schema", "schema_text"]
