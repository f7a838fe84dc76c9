"""Run as a program: kerncap, stopped at a given call.

``stopped.py MODULE ATTRIBUTE FD COMMAND...``: the first call of MODULE.ATTRIBUTE says to the descriptor FD
that it has come there, and does not return. What is around it is kerncap as it is.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from typing import Any, NoReturn


def main() -> NoReturn:
    module, attribute, fd = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sys.argv[1:] = sys.argv[4:]
    owner: Any = importlib.import_module(module)
    *path, name = attribute.split(".")
    for each in path:
        owner = getattr(owner, each)

    def stop(*_: object, **__: object) -> NoReturn:
        os.write(fd, b"!")
        while True:
            time.sleep(3600)

    setattr(owner, name, functools.wraps(getattr(owner, name))(stop))
    from kerncap.cli import main as kerncap

    sys.exit(kerncap())


if __name__ == "__main__":
    main()
