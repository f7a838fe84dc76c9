"""Where a launch of an AMD GPU can be replayed: on one of the same architecture, or on an emulated one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kerncap import child
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format.schema import Manifest
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.probe_messages import Agents

EMULATOR_VARIABLE = "KERNCAP_AMD_EMULATOR"
_ARCH_VARIABLE = "AMD_GPU_GFX"
_PROBE_TIMEOUT_S = 60
_TAIL = 300
# Not for a replay: tools that would watch it, and what a capture put before the program.
_TOOLS = ("HSA_TOOLS_LIB", "ROCP_TOOL_LIB")

_BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"


@dataclass(frozen=True)
class Emulator:
    """A folder whose executable `run` starts a program with an emulated GPU of ``arch`` ("gfx90a")."""

    folder: Path
    arch: str

    @property
    def prefix(self) -> tuple[str, ...]:
        return (str(self.folder / "run"),)


@dataclass(frozen=True)
class Probe:
    """What a Python finds: the architecture of each GPU, or why there is none."""

    python: str
    agents: tuple[str, ...]
    reason: str


def emulator(folder: Path | None, manifest: Manifest) -> Emulator | None:
    """The emulator that was asked for, or that the environment names; None for neither.

    Raises BackendUnavailable if its folder has no `run`.
    """
    named = os.environ.get(EMULATOR_VARIABLE, "")
    if folder is None and not named:
        return None
    where = (folder or Path(named)).absolute()
    if not os.access(where / "run", os.X_OK) or (where / "run").is_dir():
        by = "--emulator" if folder is not None else EMULATOR_VARIABLE
        raise BackendUnavailable("the emulated AMD GPU", f"{by} {where}: it holds no executable `run`")
    return Emulator(where, _bare(manifest.device.arch))


def environment(current: Mapping[str, str], emulated: Emulator | None) -> dict[str, str]:
    """What a worker is started with: all but what would watch it, as under capture."""
    found = {name: value for name, value in current.items() if name not in _TOOLS}
    preloaded = [
        each
        for each in found.get("LD_PRELOAD", "").replace(" ", ":").split(":")
        if each and not Path(each).name.startswith("libkerncap_")
    ]
    found.pop("LD_PRELOAD", None)
    if preloaded:
        found["LD_PRELOAD"] = ":".join(preloaded)
    if emulated is not None and emulated.arch:
        found[_ARCH_VARIABLE] = emulated.arch
    return found


def probe(python: str, emulated: Emulator | None) -> Probe:
    """Ask ``python`` what GPUs there are, in a process of its own.

    Raises BackendUnavailable when it can't be run, or has no numpy.
    """
    prefix = () if emulated is None else emulated.prefix
    who = f"the Python {python}" if emulated is None else f"the emulated AMD GPU ({emulated.folder})"
    try:
        words = [*prefix, *child.python(python, _BOOTSTRAP, "agents")]
        done = child.run(words, timeout=_PROBE_TIMEOUT_S, env=environment(os.environ, emulated))
        found = typed_json.read(Agents, done.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendUnavailable(who, str(error)) from error
    except typed_json.Unreadable as error:
        said = done.stderr.decode(errors="replace").strip()[-_TAIL:]
        raise BackendUnavailable(who, said or f"it ended with status {done.returncode}") from error
    if not found.numpy:
        raise BackendUnavailable("replay", f"{python} has no numpy; name one that has it with --python")
    return Probe(python, tuple(found.agents), found.reason)


def ordinal(device: str, manifest: Manifest, found: Probe) -> int:
    """The number of the GPU that was asked for.

    Of those that can run the launch, ``auto`` is the captured one if it is there, else the first.
    Raises BackendUnavailable for one that is not there, UsageError for what names none.
    """
    kind, _, number = device.partition(":")
    if device != "auto" and (kind != "hip" or not (number or "0").isdigit()):
        raise UsageError(f"--device {device}: {manifest.kernel.name} needs an AMD GPU: auto or hip:N")
    if not found.agents:
        raise BackendUnavailable(
            "the binary engine",
            f"a code object needs an AMD GPU: {found.reason}; --emulator FOLDER (or {EMULATOR_VARIABLE}) "
            "names one that is emulated",
        )
    if device == "auto":
        wanted = _bare(manifest.device.arch)
        fitting = [n for n, arch in enumerate(found.agents) if not wanted or _bare(arch) == wanted]
        if manifest.device.ordinal in fitting:
            return manifest.device.ordinal
        return fitting[0] if fitting else 0
    if int(number or "0") >= len(found.agents):
        raise BackendUnavailable(f"AMD GPU {number}", f"ROCm shows {len(found.agents)} of them here")
    return int(number or "0")


def check_arch(manifest: Manifest, number: int, found: Probe) -> None:
    """Raises BackendUnavailable for a GPU that the code object was not compiled for."""
    wanted, here = _bare(manifest.device.arch), _bare(found.agents[number])
    if wanted and here and wanted != here:
        raise BackendUnavailable(
            "the binary engine",
            f"the code object is for {wanted} and AMD GPU {number} here is {here}: code objects run on no "
            f"other architecture; replay it on a {wanted}, or with --emulator FOLDER on an emulated one",
        )


def _bare(arch: str | None) -> str:
    """``gfx90a`` of ``gfx90a:sramecc+:xnack-``"""
    return (arch or "").partition(":")[0].strip()
