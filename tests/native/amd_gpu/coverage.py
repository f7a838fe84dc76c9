"""How many instructions LLVM knows, and how many of them the emulated GPU executes.

python -m tests.native.amd_gpu.coverage     the table of docs/hip.md, and what is refused
"""

from __future__ import annotations

import subprocess
from functools import cache
from typing import NamedTuple

from tests.native.amd_gpu.isa import ARCHS, runner_command

HEADER = "| | LLVM knows | executed | of these not with `clamp` | stop with their name |"


class Instruction(NamedTuple):
    taken: str  # "executed", "partly" (not with `clamp`), "refused"
    name: str  # with no ending for its encoding
    code: bytes  # an example
    text: str  # of the example, as LLVM prints it


@cache
def swept(arch: str) -> list[Instruction]:
    """Every instruction of ``arch`` that libLLVM's disassembler knows."""
    command = [*runner_command(), "--sweep", arch]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = (line.split(" ", 3) for line in done.stdout.splitlines())
    return [Instruction(taken, name, bytes.fromhex(code), text.strip()) for taken, name, code, text in found]


def row(arch: str) -> str:
    taken = [one.taken for one in swept(arch)]
    partly, refused = taken.count("partly"), taken.count("refused")
    return f"| {arch} | {len(taken)} | {len(taken) - refused} | {partly} | {refused} |"


def main() -> None:
    print(HEADER, "|---|---|---|---|---|", *map(row, ARCHS), sep="\n")
    for arch in ARCHS:
        print(f"\n{arch} refuses:", *(one.name for one in swept(arch) if one.taken == "refused"))


if __name__ == "__main__":
    main()
