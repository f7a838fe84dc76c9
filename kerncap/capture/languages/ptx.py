"""The PTX of a kernel whose source was not found: an edit of it can still be judged."""

from __future__ import annotations

import dataclasses

from kerncap.capture.source.native import line_table
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest


def instead_of(found: FoundSource, request: SourceRequest) -> FoundSource:
    """``found``, with the image's PTX as the file to edit if the kernel is in it."""
    if request.ptx is None or line_table.ptx_body(request.ptx, request.mangled) is None:
        return found
    file = FoundFile("kernel.ptx", "the image's PTX", request.ptx.rstrip("\0").encode("utf-8", "replace"))
    line = request.ptx[: request.ptx.find(request.mangled)].count("\n") + 1
    return dataclasses.replace(
        found,
        entry=request.mangled,
        language="ptx",
        files=(file, *found.files),
        file=file.path,
        kernel_line=found.kernel_line or line,
        notes=(*found.notes, "only the kernel's PTX can be edited"),
    )
