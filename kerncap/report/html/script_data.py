"""Data that the page's script reads when a part is opened: inert, and compressed if it is large.

A block is a `<script>` of type application/json, which no browser runs, and no text in it can end it.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from markupsafe import Markup

_PLAIN_UP_TO = 3000  # characters; below, compression saves nothing


def block(name: str, content: Any) -> Markup:
    """The element for ``content``; ``name`` is its id and one of ours."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if len(text) <= _PLAIN_UP_TO:
        # These occur only inside strings, and there JSON may write them like this.
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return Markup('<script type="application/json" id="{}">').format(name) + Markup(text + "</script>")
    packed = base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")
    opening = Markup('<script type="application/json" id="{}" data-packed="deflate">').format(name)
    return opening + Markup(packed + "</script>")
