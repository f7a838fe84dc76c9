"""Which Python files of a program may hold a kernel: by its stack, its command line, a module's name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kerncap.capture.source.wanted_source import SourceRequest

MAIN = "__main__"
PACKAGES = ("/site-packages/", "/dist-packages/")


def candidates(request: SourceRequest, module: Sequence[str], first: Sequence[str] = ()) -> Iterator[str]:
    """Files that are here, each once, the surest first. Of ``module`` (``("pkg", "mod")``), longer and
    shorter names are tried: what follows may be a class or a function. ``first``: what line tables name."""
    cwd = str(request.cwd or "/")
    stack = stack_files(request)
    script = [os.path.join(cwd, word) for word in request.argv[1:] if word.endswith(".py")][:1]
    found = [*(os.path.join(cwd, path) for path in first), *stack, *script]
    if module and module[0] != MAIN:
        folders = [*map(str, request.source_dirs), *map(os.path.dirname, script), cwd, *installed(stack)]
        for folder in folders:
            for length in range(len(module), 0, -1):
                place = os.path.join(folder, *module[:length])
                found += [f"{place}.py", os.path.join(place, "__init__.py")]
    for path in dict.fromkeys(map(os.path.normpath, found)):
        if path.endswith(".py") and os.path.isfile(path):
            yield path


def stack_files(request: SourceRequest) -> list[str]:
    """The files of the launching thread's frames, innermost first."""
    cwd = str(request.cwd or "/")
    return [os.path.join(cwd, file) for file, _, _ in reversed(request.python_stack)]


def is_installed(path: str) -> bool:
    return any(mark in path for mark in PACKAGES)


def installed(paths: Sequence[str]) -> list[str]:
    """The folders of installed packages that some of the files lie in."""
    found = (path.partition(mark)[0] + mark for path in paths for mark in PACKAGES if mark in path)
    return list(dict.fromkeys(found))
