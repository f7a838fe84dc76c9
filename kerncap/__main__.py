"""``python -m kerncap``, and the ``kerncap`` script."""

from __future__ import annotations

import gc
import os
import sys

from kerncap.search_path import is_safe


def main() -> int:
    """Leave the current folder out of all imports, then run the command line."""
    _leave_current_folder()
    gc.set_threshold(200_000, 20, 100)  # most of what a short command makes are modules, and no garbage
    if sys.argv[1:2] in (["replay"], ["verify"]):
        from kerncap.replay import nursery  # before click: the driver starts meanwhile

        with nursery.early(sys.argv[2:]):
            status = _run()
    else:
        status = _run()
    gc.freeze()  # else the interpreter's end looks for garbage among them
    return status


def _run() -> int:
    from kerncap import cli

    return cli.main()


def _leave_current_folder() -> None:
    """Take out of `sys.path` what stands there for the current folder, and what lies in a reproducer.

    `python -m` puts the first there, and so does an empty or relative entry of PYTHONPATH.
    """
    entries = (os.environ.get("PYTHONPATH") or "/").split(os.pathsep)
    try:
        implied = {os.path.abspath(entry) for entry in entries if not is_safe(entry)}
        if sys.path[0] == os.getcwd() and not getattr(sys.flags, "safe_path", False):
            del sys.path[0]
    except OSError:  # it is gone, and nothing can be found in it
        implied = set()
    sys.path[:] = [entry for entry in sys.path if entry and entry not in implied]


if __name__ == "__main__":
    sys.exit(main())
