"""What every project says of its launch. Texts of a manifest become one plain line each."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from kerncap import __version__
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.log import one_line

_WIDTH = 108


@dataclass(frozen=True)
class Words:
    """What the files of a project say of its launches; ``stem`` is in their names."""

    stem: str
    title: str
    facts: str


def words_of_launch(manifest: Manifest) -> Words:
    return Words(file_stem(manifest.kernel.name), title(manifest), facts(manifest))


def words_of_range(launches: Sequence[Reproducer]) -> Words:
    kernels = [launch.manifest.kernel.name for launch in launches]
    names = plain(", ".join(dict.fromkeys(kernels)), 100)
    stem = file_stem(f"range_of_{len(kernels)}_{kernels[0]}")
    return Words(stem, f"{len(kernels)} launches in order: {names}", facts(launches[0].manifest))


def file_stem(kernel: str) -> str:
    """The name of a kernel as that of a file and of a Python module."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", kernel).strip("_")[:64] or "kernel"
    return f"k_{stem}" if stem[0].isdigit() else stem


def title(manifest: Manifest) -> str:
    """``softmax_kernel: launch 0 of `python run.py`, with the memory that it had.``"""
    command = shlex.join([PurePath(word).name if i == 0 else word for i, word in enumerate(manifest.command)])
    of = f" of `{plain(command, 200)}`" if manifest.command else ""
    launch = f"{plain(manifest.kernel.name)}: launch {manifest.launch.ordinal}{of}"
    return wrapped(f"{launch}, with the memory that it had.")


def captured_on(manifest: Manifest) -> str:
    """``NVIDIA H200 (sm_90), Triton 3.5.0``"""
    device = manifest.device
    text = plain(device.name) + (f" ({plain(device.arch)})" if device.arch else "")
    version = manifest.platform.packages.get("triton")
    if manifest.launch.mode == "interpreter":
        text += ", Triton's interpreter"
    return text + (f", Triton {plain(version)}" if version and manifest.kernel.language == "triton" else "")


def facts(manifest: Manifest) -> str:
    """When, on what and with what it was captured, wrapped."""
    packages = manifest.platform.packages
    parts = [f"{name} {plain(packages[name])}" for name in ("torch", "triton") if name in packages]
    if manifest.device.driver:
        parts.append(f"driver {plain(manifest.device.driver)}")
    text = (
        f"Captured {plain(manifest.created)[:10]} on {captured_on(manifest)}"
        + (f"; {', '.join(parts)}" if parts else "")
        + f". Made by kerncap {__version__}, which it does not need."
    )
    return wrapped(text)


def notes_on(reproducer: Reproducer) -> Iterator[str]:
    """What a user of any project should know of the reproducer that it was made of."""
    checks, manifest = reproducer.checks(), reproducer.manifest
    if checks is not None and checks.self_check is not None and checks.self_check.result == "fail":
        yield f"its self-check failed where it was captured: {one_line(checks.self_check.reason, 200)}"
    elif manifest.oracle.kind == "trusted" and (checks is None or checks.write_set is None):
        yield (
            "which bytes the launch only writes was never measured; kerncap verify measures it, then export "
            "again"
        )


def plain(text: str, limit: int = 120) -> str:
    """One line that can stand in a comment or a docstring of Python, C++ and CMake."""
    line = one_line(text, limit).encode("ascii", "replace").decode()
    return re.sub(r'["\\]|\*/|\?\?', "_", line)


def wrapped(text: str) -> str:
    """Lines of a comment or a docstring."""
    return "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=True, break_on_hyphens=False))
