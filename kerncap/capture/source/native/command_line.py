"""A compiler's command line taken apart: include folders, forced headers, options in one spelling.

For nvcc, for NVRTC's options, for hipcc and clang, and for what build systems write for a host compiler
that takes CUDA.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kerncap.format.build_options import split_accepted

_CLANG = ("hipcc", "hiprtc")
Form = Literal["quote", "angle", "system"]
MAX_RESPONSE_BYTES = 4 << 20
MAX_WORDS = 100_000

# Options that say a folder or a header, in all their spellings: `-I x`, `-Ix`, `-I=x`, `--include-path=x`.
_FOLDERS: dict[str, Form] = {
    "-iquote": "quote",
    "-isystem": "system",
    "--system-include": "system",
    "-system-include": "system",
    "--include-path": "angle",
    "-include-path": "angle",
    "-I": "angle",
}
_FORCED: dict[str, Form] = dict.fromkeys(("--pre-include", "-pre-include", "-include"), "quote")
_JOINED = ("-isystem", "-iquote", "-I")
# Options that take their value as the next word, in the spelling that recipes use for them.
_SEPARATE = {
    "-D": "-D", "--define-macro": "-D", "-define-macro": "-D",
    "-U": "-U", "--undefine-macro": "-U", "-undefine-macro": "-U",
    "-std": "-std=", "--std": "-std=",
    "-maxrregcount": "-maxrregcount=", "--maxrregcount": "-maxrregcount=",
    "-Xptxas": "-Xptxas=", "--ptxas-options": "-Xptxas=",
    "-Xcompiler": "-Xcompiler=", "--compiler-options": "-Xcompiler=",
    "-Xcudafe": "-Xcudafe=", "-O": "-O", "--optimize": "-O",
    "-ftz": "-ftz=", "--ftz": "-ftz=", "-fmad": "-fmad=", "--fmad": "-fmad=",
    "-prec-div": "-prec-div=", "--prec-div": "-prec-div=",
    "-prec-sqrt": "-prec-sqrt=", "--prec-sqrt": "-prec-sqrt=",
    "-default-stream": "--default-stream=", "--default-stream": "--default-stream=",
    "-diag-suppress": "--diag-suppress=", "--diag-suppress": "--diag-suppress=",
    "-expt-relaxed-constexpr": "", "--expt-relaxed-constexpr": "",
}  # fmt: skip
_SEPARATE = {name: spelling for name, spelling in _SEPARATE.items() if spelling}
_ALIASES = {"--define-macro=": "-D", "-define-macro=": "-D", "--undefine-macro=": "-U", "-D=": "-D"}
# Options whose next word is theirs and does not concern device code.
_SKIPPED_VALUE = frozenset(
    ("-o", "--output-file", "-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code",
     "--gpu-code", "-x", "--x", "-MT", "-MQ", "-ccbin", "--compiler-bindir", "-odir", "--output-directory",
     "-Xlinker", "--linker-options", "-Xnvlink", "--nvlink-options", "-Xarchive", "-l", "-L", "--library",
     "--library-path", "-t", "--threads", "-dir", "-idp", "-Xcicc", "-Xfatbin", "-keep-dir", "--keep-dir",
     "-target-dir", "--dependency-output", "-MF", "-dlink-time-opt", "-isysroot", "--sysroot", "-arch-list",
     "--machine", "-m")
)  # fmt: skip
# Where clang differs: `-O` alone is an option, these take the next word.
_HIP_SEPARATE = {
    "-D": "-D", "-U": "-U", "-std": "-std=", "-mllvm": "-mllvm=", "--offload-arch": "--offload-arch=",
    "-Xarch_device": "-Xarch_device=",
}  # fmt: skip
_HIP_SKIPPED = frozenset(
    ("-o", "-x", "-MT", "-MQ", "-MF", "-Xlinker", "-l", "-L", "-isysroot", "--sysroot", "-arch", "-target",
     "-T", "-Xclang", "-Xarch_host", "-Xoffload-linker", "-Xpreprocessor", "-Xassembler", "-z", "--param",
     "-gcc-toolchain", "-B", "-dumpdir", "-ivfsoverlay", "-include-pch", "-index-store-path",
     "-serialize-diagnostics", "-aux-triple")
)  # fmt: skip
_RESPONSE = ("--options-file", "-optf")


@dataclass(frozen=True)
class CommandLine:
    """``folders`` are absolute, in the order of the search; ``left_out`` are options that no recipe keeps."""

    options: tuple[str, ...]
    folders: tuple[tuple[str, Form], ...]
    forced: tuple[str, ...]
    architectures: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    relocatable: bool = False


def parse(tool: str, words: Sequence[str], directory: Path) -> CommandLine:
    """The parts of a command line; ``words`` without the compiler itself. Response files are read."""
    folders: list[tuple[str, Form]] = []
    forced: list[str] = []
    options: list[str] = []
    architectures: list[str] = []
    relocatable = False
    separate, skipped = (_HIP_SEPARATE, _HIP_SKIPPED) if tool in _CLANG else (_SEPARATE, _SKIPPED_VALUE)
    stream = _expanded(words, directory)
    for word in stream:
        named = _valued(word, _FOLDERS, stream)
        if named is None and word.startswith(_JOINED) and not word.startswith(("-include", "-Include")):
            prefix = next(each for each in _JOINED if word.startswith(each))
            named = (_FOLDERS[prefix], word[len(prefix) :])
        if named is not None:
            for folder in named[1].split(",") if "," in named[1] else (named[1],):
                folders.append((_absolute(folder, directory), named[0]))
            continue
        header = _valued(word, _FORCED, stream)
        if header is not None:
            forced.append(header[1])
            continue
        if _is_relocatable(word):
            relocatable = True
            continue
        architectures += _architectures(word)
        if word in skipped:
            value = next(stream, "")
            architectures += _architectures(f"{word}={value}")
            continue
        options.append(_one_word(word, stream, separate))
    kept, left_out = split_accepted(tool, [option for option in options if option.startswith("-")])
    return CommandLine(
        kept,
        tuple(dict.fromkeys(folders)),
        tuple(forced),
        tuple(dict.fromkeys(architectures)),
        tuple(option for option in left_out if _worth_saying(option)),
        relocatable,
    )


def _expanded(words: Sequence[str], directory: Path) -> Iterator[str]:
    stream = iter(words[:MAX_WORDS])
    for word in stream:
        name = None
        if word in _RESPONSE:
            name = next(stream, "")
        elif word.startswith(tuple(f"{each}=" for each in _RESPONSE)):
            name = word.partition("=")[2]
        elif word.startswith("@") and len(word) > 1:
            name = word[1:]
        if name is None:
            yield word
            continue
        for part in name.split(","):
            yield from _response_words(directory / part)


def _response_words(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_RESPONSE_BYTES).decode("utf-8", "replace")
        return shlex.split(text)[:MAX_WORDS]
    except (OSError, ValueError):
        return []


def _valued(word: str, names: Mapping[str, Form], stream: Iterator[str]) -> tuple[Form, str] | None:
    """The kind and value of `-name value` or `-name=value`, the value taken off the stream."""
    name, equals, value = word.partition("=")
    if name in names:
        return names[name], value if equals else next(stream, "")
    return None


def _one_word(word: str, stream: Iterator[str], separate: Mapping[str, str]) -> str:
    if word in separate:
        return separate[word] + next(stream, "")
    for alias, spelling in _ALIASES.items():
        if word.startswith(alias):
            return spelling + word[len(alias) :]
    return word


def _is_relocatable(word: str) -> bool:
    return word in (
        "-dc",
        "-dw",
        "--device-c",
        "-rdc=true",
        "--relocatable-device-code=true",
        "-fgpu-rdc",
        "-fcuda-rdc",
    )


def _architectures(word: str) -> list[str]:
    if re.match(r"--?(?:arch|gpu-architecture|gencode|generate-code|code|gpu-code)=", word):
        return re.findall(r"sm_\d+[a-z]?", word)
    if re.match(r"--?(?:offload-arch|amdgpu-target|cuda-gpu-arch)=", word):
        return re.findall(r"gfx[0-9a-z-]+", word)
    return []


# Host flags, outputs, architectures: no recipe keeps them, and nobody misses them.
_BY_DESIGN = re.compile(
    r"--?(?:arch|gpu-|gencode|generate-code|code|rdc|relocatable|device-c|compile|ptx$|cubin$|fatbin$|forward-|"
    r"Xcompiler|compiler-|ccbin|x=|keep|threads|split-compile|time|cudart|lib|shared|dryrun|verbose|pch|"
    r"create-pch|use-pch|generate-dependencies|"
    r"offload-|amdgpu-target|cuda-|no-offload|gpu-bundle|rocm-|hip-|driver-mode|no-gpu-bundle)|"
    r"-(?:c$|save-temps|[lLMWf]|m\d|g$|g\d|O|pipe$|pthread$|p$|v$|t\d|Xlinker)"
)


def _worth_saying(option: str) -> bool:
    return not _BY_DESIGN.match(option)


def _absolute(folder: str, directory: Path) -> str:
    return os.path.normpath(os.path.join(directory, folder))
