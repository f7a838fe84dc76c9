"""Mutants of the CUDA kernels of `integration/equality/cuda`: one instruction of their PTX is another.

python -m tests.fuzz.equality.ptx_campaign --mutants 1000 --seed 1
"""

from __future__ import annotations

import functools
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.sanitizer.equality.kernel_runs import kernel_of
from kerncap.sanitizer.equality.numbers import NotModelled
from tests.fuzz.equality.campaign import RUNS, answer, main
from tests.integration.equality.cuda.launches import text
from tests.integration.equality.cuda.pairs import EQUAL, Run

_EXCHANGED = (
    ("add.f32", "sub.f32"), ("mul.f32", "add.f32"), ("max.f32", "min.f32"),
    ("div.rn.f32", "mul.f32"),
    ("sub.f32", "add.f32"), ("sqrt.rn.f32", "rsqrt.approx.f32"), ("neg.f32", "abs.f32"),
    ("add.s32", "sub.s32"),
    ("fma.rn.f32", "mul.f32"), ("shl.b32", "shr.u32"), ("mul.wide.s32", "mul.wide.u32"),
    ("setp.lt", "setp.le"), ("setp.ge", "setp.gt"), ("setp.gt", "setp.ge"),
    ("setp.eq", "setp.ne"), ("setp.ne", "setp.eq"),
    ("bfly", "down"), ("bfly", "up"), ("and.b32", "or.b32"), ("@%p", "@!%p"), ("__nv_expf", "__nv_exp2f"),
    ("tid.x", "tid.y"), ("ctaid.x", "ctaid.y"), (".trans", ""), ("popc", "clz"),
    ("red.global.add", "red.global.max"),
    ("atom.shared.add", "atom.shared.or"), ("ballot.b32", "any.pred"), ("row.col", "col.row"),
)  # fmt: skip
_NUMBER = re.compile(r"(?<=[ +])(-?\d+)(?=[;,\]])|0f([0-9A-F]{8})")
_REGISTER = re.compile(r"%[fr]\d+\b")


@dataclass(frozen=True)
class PtxMutant:
    """A kernel of a pair, and its PTX with another line."""

    run: Run
    before: str
    after: str
    ptx: str


def _body(kernel: str) -> tuple[int, int]:
    start = text().index("{", text().index(f".entry {kernel}("))
    return start, text().index("\n}\n", start)


def _changed(line: str, chance: random.Random) -> Iterator[str]:
    """Other lines in the place of this one."""
    for old, new in _EXCHANGED:
        if old in line:
            yield line.replace(old, new, 1)
    for found in _NUMBER.finditer(line):
        bits = found[2]
        new = (
            f"0f{int(bits, 16) ^ chance.choice((0x80000000, 0x00800000, 0x00400000)):08X}"
            if bits
            else str(int(found[1]) + chance.choice((-1, 1)))
        )
        yield line[: found.start()] + new + line[found.end() :]
    names = [*_REGISTER.finditer(line)]
    for found in names[1:]:
        for other in names[1:]:
            if other[0] != found[0] and other[0][1] == found[0][1]:
                yield line[: found.start()] + other[0] + line[found.end() :]
    if not line.startswith((".", "$", "ld.param", "{", "}", "call", "ret")) and "callseq" not in line:
        yield ""


@functools.cache
def chosen(count: int, seed: int) -> list[PtxMutant]:
    """Of all mutants of all kernels that are proved equal to another."""
    chance, found = random.Random(seed), []
    for pair in EQUAL.values():
        for one in pair:
            start, end = _body(one.kernel)
            lines = text()[start:end].split("\n")
            for at, line in enumerate(lines):
                stripped = line.strip()
                for new in _changed(stripped, chance) if stripped.endswith(";") else ():
                    body = "\n".join([*lines[:at], new, *lines[at + 1 :]])
                    found.append(PtxMutant(one, stripped, new, text()[:start] + body + text()[end:]))
    chance.shuffle(found)
    return found[:count]


def judge(one: PtxMutant, runs: int = RUNS) -> str:
    """What the proof says of a mutant; `WRONG` for one that is proved and differs."""
    first = kernel_of(one.run.launch())
    try:
        second = kernel_of(one.run.launch(one.ptx))
    except NotModelled:
        return "not read"
    return answer(first, second, runs)


def judged(number: int, count: int, seed: int) -> tuple[str, str]:
    """A mutant as text, and what the proof says of it."""
    one = chosen(count, seed)[number]
    return f"{one.run.kernel}: {one.before}  ->  {one.after}", judge(one)


if __name__ == "__main__":
    sys.exit(main(__doc__, chosen, judged))
