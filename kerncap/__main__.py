"""``python -m kerncap``: the same as the ``kerncap`` script."""

from __future__ import annotations

import sys

from kerncap.cli import main

if __name__ == "__main__":
    sys.exit(main())
