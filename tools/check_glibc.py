"""Whether a native shim loads wherever its wheel says: `check_glibc.py FILE…`, shared objects or wheels.

manylinux_2_28 promises a glibc of 2.28; and what enters other people's processes needs nothing but glibc.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

FLOOR = (2, 28)
LIBRARIES = re.compile(r"lib(c|dl|pthread|m)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")


def problems(data: bytes) -> list[str]:
    """What the shared object needs that is not promised, one line each."""
    elf = ELFFile(io.BytesIO(data))
    found = []
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                found += [
                    f"needs {version.name} of {library.name}; at most GLIBC_{FLOOR[0]}.{FLOOR[1]} is promised"
                    for version in versions
                    if _too_new(version.name)
                ]
        elif isinstance(section, DynamicSection):
            found += [
                f"needs {tag.needed}; only glibc's own libraries are promised"
                for tag in section.iter_tags("DT_NEEDED")
                if not LIBRARIES.fullmatch(tag.needed)
            ]
    return found


def _too_new(version: str) -> bool:
    match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
    return match is None or (int(match[1]), int(match[2])) > FLOOR


def _objects(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix != ".whl":
        yield str(path), path.read_bytes()
        return
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.endswith(".so"):
                yield f"{path.name}: {name}", wheel.read(name)


def main(arguments: list[str]) -> int:
    """Exit status 1 with one line per problem, also if there is nothing to check."""
    objects = [item for argument in arguments for item in _objects(Path(argument))]
    lines = [f"{name}: {problem}" for name, data in objects for problem in problems(data)]
    if not objects:
        lines = [f"no shared object in {' '.join(arguments)}"]
    print(
        "\n".join(lines)
        or f"check_glibc: {len(objects)} shared object(s), glibc {FLOOR[0]}.{FLOOR[1]} is enough"
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
