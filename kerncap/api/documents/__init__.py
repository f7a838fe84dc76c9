"""JSON Schemas of the documents that ``--json`` prints. A test checks every command's real output.

Their one source is the types in `kerncap.report.documents`, and here those of times and limits.
`python -m kerncap.api.documents` rewrites ``docs/schemas``; ``kerncap schema`` prints one.
"""

from __future__ import annotations

from kerncap.api.documents.schemas import DOCUMENTS, document_type, schema, schema_text

__all__ = ["DOCUMENTS", "document_type", "schema", "schema_text"]
