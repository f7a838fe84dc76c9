"""Which compiler options a recipe may hold: those that reach device code, one word each.

A recipe may come from a stranger and its options reach a compiler, so this is a list of what is known to
do no more than change the code: nothing here names a file outside, a plugin, another program or an output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_VALUE = r"[\w.,:+-]+"  # no path separator: no value here is a file
_PTXAS = (
    r"-{1,2}(?:v|O[0-4]|verbose|opt-level=[0-4]|maxrregcount=\d+|fmad=(?:true|false)|warn-\w[\w-]*|"
    r"suppress-\w[\w-]*|(?:dlcm|dscm|flcm|fscm|def-load-cache|def-store-cache|force-load-cache|"
    r"force-store-cache)=\w+|allow-expensive-optimizations(?:=(?:true|false))?|"
    r"disable-optimizer-constants|device-debug|generate-line-info)"
)
_BOTH = (
    # nvcc hands its steps to a shell, in double quotes: no $, no backtick, no backslash.
    r"-D[A-Za-z_]\w*(?:\([\w,. ]*\))?(?:=[^\0\r\n$`\\]*)?",
    r"-U[A-Za-z_]\w*",
    r"--?std=(?:c|gnu)\+\+\w{1,3}",
    r"--?(?:use_fast_math|extra-device-vectorization|restrict|device-debug|generate-line-info)",
    r"-(?:G|lineinfo|w|dopt(?:=\w+)?)|--dopt(?:=\w+)?",
    r"--?(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)",
    r"--?maxrregcount=\d+",
    r"-include=source/[^\0\r\n$`\\]+",  # a stored file, to be resolved and checked by who builds
    r"--?(?:extended-lambda|expt-extended-lambda|expt-relaxed-constexpr)",
    r"--?diag-(?:suppress|warn|error|remark)=[\w,-]+",
    r"--?(?:disable-warnings|no-display-error-number|display-error-number)",
    rf"(?:-Xptxas|--ptxas-options)={_PTXAS}(?:,{_PTXAS})*",
)
_NVCC = (
    r"-O[0-3]|--optimize=[0-3]",
    r"-(?:Xcudafe|-cudafe)=--?(?:diag_(?:suppress|warning|error)=[\w,-]+|display_error_number)",
    r"-Xcompiler=(?:-D[A-Za-z_]\w*(?:=[\w.+-]*)?|-U[A-Za-z_]\w*|-fopenmp)",
    r"--?default-stream=[\w-]+",
    r"--?allow-unsupported-compiler",
    rf"-Wno-{_VALUE}",
)
_NVRTC = (
    r"--?(?:device-as-default-execution-space|default-device|no-source-include|version-ident=(?:true|false))",
    r"--?builtin-(?:move-forward|initializer-list)=(?:true|false)",
    r"--?(?:device-int128|device-float128|disable-warnings|minimal)",
    r"--?extensible-whole-program|-ewp",
    r"--?ptxas-options=" + _PTXAS,
)
_MATH = (
    r"fast-math|finite-math-only|associative-math|reciprocal-math|signed-zeros|trapping-math|approx-func|"
    r"honor-nans|honor-infinities|math-errno|rounding-math|unsafe-math-optimizations|"
    r"cuda-flush-denormals-to-zero|gpu-flush-denormals-to-zero|hip-fp32-correctly-rounded-divide-sqrt"
)
_LLVM = (
    r"-amdgpu-[\w-]+(?:=[\w.-]+)?|-(?:enable|disable)-[\w-]+(?:=\w+)?|-(?:inline|unroll)-[\w-]+(?:=\w+)?|"
    r"-lsr-[\w-]+(?:=\w+)?|-greedy-[\w-]+(?:=\w+)?"
)
_HIPCC = (
    r"-D[A-Za-z_]\w*(?:\([\w,. ]*\))?(?:=[^\0\r\n$`\\]*)?|-U[A-Za-z_]\w*",
    r"-include=source/[^\0\r\n$`\\]+",
    r"--?std=(?:c|gnu)\+\+\w{1,3}",
    r"-O(?:[0-3]|s|z|fast)?|-g(?:[0-3]|line-tables-only|dwarf-[2-5])?|-gline-tables-only|-gmlt|-w",
    rf"-f(?:no-)?(?:{_MATH})",
    r"-ffp-contract=(?:fast|on|off|fast-honor-pragmas)|-fdenormal-fp-math(?:-f32)?=[\w,-]+",
    r"-f(?:no-)?(?:gpu-approx-transcendentals|cuda-approx-transcendentals|strict-aliasing|wrapv|unroll-loops|"
    r"slp-vectorize|vectorize|inline-functions|exceptions|rtti|hip-new-launch-api|hip-kernel-arg-name|"
    r"gpu-exclude-wrong-side-overloads|gpu-allow-device-init|gpu-defer-diag|signed-char|unsigned-char)",
    r"-fgpu-default-stream=(?:legacy|per-thread)|-ftemplate-depth=\d{1,6}|-fconstexpr-(?:steps|depth)=\d{1,9}",
    r"-m(?:no-)?(?:unsafe-fp-atomics|wavefrontsize64|cumode|tgsplit|amdgpu-ieee)|-mcode-object-version=[2-6]",
    r"-munsafe-fp-atomics|--gpu-max-threads-per-block=\d{1,5}",
    rf"-mllvm=(?:{_LLVM})",
    r"-W(?:no-)?[a-z][\w+-]*(?:=[\w-]+)?",  # no comma: -Wl, and its like go to other programs
)
_ACCEPTED = {
    tool: re.compile("|".join(f"(?:{each})" for each in patterns))
    for tool, patterns in (
        ("nvcc", _BOTH + _NVCC),
        ("nvrtc", _BOTH + _NVRTC),
        ("hipcc", _HIPCC),
        ("hiprtc", _HIPCC),
        # Their options stand in the source.
        ("numba", (r"(?!)",)),
        ("numba-cuda-mlir", (r"(?!)",)),
        ("cutile", (r"(?!)",)),
        ("cute-dsl", (r"(?!)",)),
    )
}


def is_accepted(tool: str, option: str) -> bool:
    """Whether a recipe of ``tool`` (`schema.SourceBuild.tool`) may hold this option."""
    return len(option) <= 4096 and _ACCEPTED[tool].fullmatch(option) is not None


def is_plain_path(path: str) -> bool:
    """Whether a compiler driver that uses a shell may be given this path."""
    return re.fullmatch(r"[\w.+@,=~#%^:\- /()\[\]{}&]+", path) is not None and not path.startswith("-")


def split_accepted(tool: str, options: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options that a recipe may hold, and the others, each in their order."""
    kept: list[str] = []
    others: list[str] = []
    for option in options:
        (kept if is_accepted(tool, option) else others).append(option)
    return tuple(kept), tuple(others)
