"""ROCm's examples on the emulated AMD GPU: each kernel's first launch captured and verified, and verified
again with the unedited source as a candidate (no GPU; `make amd-gpu`, hipcc).

CHECKOUT is a clone of github.com/ROCm/rocm-examples, or a part of it with Common/. A program is the folder of
a main.hip; it is compiled as it is, for --arch. If hipcc does not know that, its source is no candidate.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from _examples import SHOWN, Limits, Sample, capture, every, parser_of, verify
from _harness import ROOT


def main() -> int:
    parser = parser_of(__doc__, "rocm-examples", run_s=60)
    parser.add_argument("--arch", default="gfx90a", help="gfx90a, gfx942 or gfx950 (with ROCm 7)")
    parser.add_argument("--include", action="append", default=[], help="a folder of headers, as rocPRIM's")
    given = parser.parse_args()
    if given.checkout is None:
        print("rocm_examples: needs CHECKOUT, a folder of ROCm's rocm-examples, skipped")
        return 0
    sys.path.insert(0, str(ROOT))
    from tests.rigs import amd_gpu

    rig = amd_gpu.find(7 if given.arch == "gfx950" else 6)
    if isinstance(rig, str):
        print(f"rocm_examples: {rig}; skipped")
        return 0
    checkout = given.checkout.resolve()
    names = {
        str(each.parent.relative_to(checkout)): each.parent for each in sorted(checkout.glob("**/main.hip"))
    }
    chosen = {name: folder for name, folder in names.items() if re.search(given.only, name)}
    if not chosen:
        raise SystemExit(f"{given.checkout}: no program in it; a checkout has HIP-Basic/*/main.hip")
    folders = [checkout / "Common", checkout / "External", *given.include]
    flags = ["-std=c++17", *(f"-I{folder}" for folder in folders)]
    given.output = given.output / given.arch
    os.environ |= {"AMD_GPU_GFX": given.arch, "KERNCAP_AMD_EMULATOR": str(rig.folder)}

    def one(name: str, folder: Path, work: Path, limits: Limits) -> Sample:
        source, program = folder / "main.hip", work / folder.name
        try:
            rig.build(source, program, given.arch, flags)
        except amd_gpu.CompileError as error:
            errors = [line for line in str(error).splitlines() if "error:" in line]
            return Sample(name, f"does not build: {(errors or ['no message'])[0][-SHOWN:]}")
        command = [*rig.compile_command(source, given.arch, flags), "-c", str(source)]
        database = [{"directory": str(folder), "file": str(source), "arguments": command}]
        (work / "compile_commands.json").write_text(json.dumps(database))
        sample = Sample(name)
        paths = capture(sample, [*rig.run_prefix, str(program)], work, work / "reproducers", limits, set())
        verify(sample, paths, work, limits, source if rig.knows(given.arch) else None)
        return sample

    return every(given, "rocm_examples", chosen, 1.0, one)


if __name__ == "__main__":
    sys.exit(main())
