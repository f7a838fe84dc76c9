"""Triton and Gluon: the hook has recorded the kernel's functions; they become one editable module."""

from __future__ import annotations

import json

from kerncap import log
from kerncap.capture.languages.language import Language
from kerncap.capture.source import assemble
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.errors import CaptureError

SOURCE_NAME = "kernel.py"


class Triton(Language):
    name = "triton"

    def find(self, request: SourceRequest) -> FoundSource | None:
        if request.graph is None:
            return None
        try:
            module = assemble(json.loads(request.graph()))
        except (CaptureError, ValueError, RecursionError) as error:
            text = log.one_line(f"the source could not be assembled: {error}")
            log.line(f"{request.mangled}: {text}")
            return FoundSource(entry=request.mangled, notes=(text,))
        originals = [FoundFile(f"original/{name}", name, data) for name, data in module.originals.items()]
        return FoundSource(
            entry=module.entry,
            language="python",
            files=(FoundFile(SOURCE_NAME, SOURCE_NAME, module.text.encode()), *originals),
            file=SOURCE_NAME,
            origins=module.origins,
            functions=module.extras,
            unresolved=module.missing,
        )
