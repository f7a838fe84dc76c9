"""The documents that ``--json`` prints, as types: the one source of their JSON Schemas.

Most are in `kerncap.report.documents`, below what builds them. A test checks every command's real output.
A part that is a result as it is has no type here: the result's own class says what its fields mean.
`python -m kerncap.api.documents` rewrites ``docs/schemas``; ``kerncap schema`` prints one.
"""

from __future__ import annotations

from kerncap.api.documents.schemas import DOCUMENTS, document_type, schema, schema_text

__all__ = ["DOCUMENTS", "document_type", "schema", "schema_text"]
