"""Empty files in the session's folder, from which "nothing captured" gets its cause."""

from __future__ import annotations

import os


def mark(session_path: str, what: str) -> None:
    """Leave ``<what>-<pid>``."""
    try:
        path = os.path.join(os.path.dirname(os.path.abspath(session_path)), "%s-%d" % (what, os.getpid()))
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        pass  # the folder is gone or full: the launches will say so, if there are any
