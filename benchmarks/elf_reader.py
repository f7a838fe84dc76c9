"""The sections and symbols of a library's cubin, which are read before a launch: against pyelftools.

kerncap has a small ELF reader for them and for nothing else; it goes when pyelftools takes less than three
times as long. The cubin has as many kernels as `--kernels` says, three sections for each, and is assembled
by ptxas, of a toolkit or of Triton's wheel.
"""

from __future__ import annotations

import io
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from _harness import Row, arguments, finish

ROUNDS = 5
_KERNEL = """
.visible .entry kernel{0}(.param .u64 p)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    add.s32 %r1, %r1, {0};
    st.global.u32 [%rd2], %r1;
    ret;
}}
"""


def cubin(kernels: int, folder: Path) -> bytes:
    """Assembled; some seconds for 2,000 kernels, and four times as long for twice as many."""
    ptxas = shutil.which("ptxas")
    triton = find_spec("triton")
    if ptxas is None and triton is not None and triton.origin is not None:
        ptxas = shutil.which("ptxas", path=str(Path(triton.origin).parent / "backends" / "nvidia" / "bin"))
    if ptxas is None:
        print("elf_reader: needs ptxas, of a CUDA toolkit or of Triton's wheel, skipped")
        raise SystemExit(0)
    text = ".version 8.0\n.target sm_90\n.address_size 64\n" + "".join(map(_KERNEL.format, range(kernels)))
    (folder / "k.ptx").write_text(text)
    made = folder / "k.cubin"
    subprocess.run([ptxas, "-arch=sm_90", "-O1", str(folder / "k.ptx"), "-o", str(made)], check=True)
    return made.read_bytes()


def ours(data: bytes) -> tuple[int, int]:
    from kerncap.format.elf import Elf

    elf = Elf(data)
    return len(elf.sections), sum(1 for symbol in elf.symbols() if symbol.name is not None)


def pyelftools(data: bytes) -> tuple[int, int]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    names = [section.name for section in elf.iter_sections()]
    symbols = elf.get_section_by_name(".symtab").iter_symbols()
    return len(names), sum(1 for symbol in symbols if symbol.name is not None) - 1  # less the null one


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--kernels", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = cubin(options.kernels, Path(folder))
    times: dict[str, list[float]] = {"ours": [], "pyelftools": []}
    for number in range(ROUNDS + 1):
        for read in (ours, pyelftools):
            start = time.process_time()
            found = read(data)
            if number:  # the first imports
                times[read.__name__].append((time.process_time() - start) * 1e3)
        assert found == ours(data), "the readers disagree"
    own, library = (statistics.median(each) for each in times.values())
    sections, symbols = ours(data)
    note = f"({sections:,} sections, {symbols:,} symbols)"
    row = Row(
        "sections and symbols",
        own,
        "ms",
        f"pyelftools ({library:.0f} ms)",
        own / library,
        most=1 / 3,
        note=note,
    )
    return finish("elf_reader", [row], options.json)


if __name__ == "__main__":
    sys.exit(main())
