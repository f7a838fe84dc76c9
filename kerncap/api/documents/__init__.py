"""The documents that ``--json`` prints, as types: the one source of their JSON Schemas.

A test checks every command's real output against them; `kerncap.report.documents` has those that reports
build.
A part that is a result as it is has no type here: the result's own class says what its fields mean.
`python -m kerncap.api.documents` rewrites ``docs/schemas``; ``kerncap schema`` prints one.
"""

from __future__ import annotations

from kerncap.api.documents.schemas import DOCUMENTS, document_type, schema, schema_text

__all__ = ["DOCUMENTS", "document_type", "schema", "schema_text"]
