"""Show a page in the user's browser, if there is one."""

from __future__ import annotations

import os

from kerncap import child


def show(url: str) -> bool:
    """Whether a browser was asked to: not without a display, nor one that a variable names."""
    if not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        return False
    import webbrowser

    with child.protected():  # the browser outlives us
        return webbrowser.open(url)
