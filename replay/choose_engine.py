"""Which engine runs a reproducer here: Python, launcher, memory, device. Every refusal has its reason."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap import child
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format.schema import Manifest
from kerncap.replay.staging import NATIVE_STAGES
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.cuda_bindings import has_driver

if TYPE_CHECKING:
    from kerncap.replay import amd_devices

ENGINES = ("auto", "binary", "jit", "interpreter")

_BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"


@dataclass(frozen=True)
class Probe:
    """What a Python can bring to a replay."""

    python: str
    missing: tuple[str, ...]
    cuda_devices: int
    cuda_reason: str


@dataclass(frozen=True)
class Choice:
    """An engine: ``launcher`` in ``memory`` on the device of that number (-1: host).

    ``emulator``: what stands in for the GPU of a HIP launch, if anything does. ``source``: an image is
    launched that is compiled from the stored source, not the captured one. ``hostile``: candidates are taken
    to attack whatever judges them; ``stranger``: so is the stored source. ``apart``: Python of candidates
    runs where it is compiled, and only what does not compile there in the worker. ``torch_free``: a Triton
    launch whose image the driver launches, see `without_torch`.
    """

    python: str
    launcher: str
    memory: str
    device: int
    emulator: amd_devices.Emulator | None = None
    source: bool = False
    hostile: bool = False
    stranger: bool = False
    apart: bool = False
    torch_free: bool = False

    @property
    def name(self) -> str:
        """As the user calls it: a native launch is the binary engine's."""
        if self.source:
            return "jit"
        return "binary" if self.launcher == "native" else self.launcher

    @property
    def compiles(self) -> bool:
        """Whether Triton's source is compiled for other configurations than the captured one."""
        return self.launcher in ("jit", "interpreter") or self.source

    @property
    def on_device(self) -> bool:
        """Whether a GPU runs it, so that runs are cheap and their times say something."""
        return self.memory != "host" and self.emulator is None

    @property
    def clock(self) -> str:
        """Whose times those of its launches are."""
        if self.emulator is not None:
            return "the emulator's clock"
        return "host clock" if self.memory == "host" else "device events"

    @property
    def prefix(self) -> tuple[str, ...]:
        """What the worker's Python is started by."""
        return () if self.emulator is None else self.emulator.prefix


_complete: dict[tuple[str, tuple[tuple[str, str], ...]], Probe] = {}  # by Python and environment


def probe(python: str) -> Probe:
    """Ask ``python`` what it has, in a separate process; once, if it lacks nothing.

    Raises BackendUnavailable when it can't be run.
    """
    from kerncap.replay.worker.probe_messages import Packages  # what is likely needs no probe

    asked = python, tuple(sorted(os.environ.items()))
    if asked in _complete:
        return _complete[asked]
    try:
        done = child.run(child.python(python, _BOOTSTRAP, "packages"), timeout=60, check=True)
        found = typed_json.read(Packages, done.stdout)
    except (OSError, subprocess.SubprocessError, typed_json.Unreadable) as error:
        said = getattr(error, "stderr", None) or b""
        detail = said.decode(errors="replace").strip()[-300:] or str(error)
        raise BackendUnavailable(f"the Python {python}", detail) from error
    there = {"torch": found.torch, "triton": found.triton, "numpy": found.numpy}
    missing = tuple(name for name, is_there in there.items() if not is_there)
    answer = Probe(python, missing, found.cuda, found.cuda_reason)
    if not missing:
        _complete[asked] = answer
    return answer


def choose(
    manifest: Manifest,
    engine: str = "auto",
    device: str = "auto",
    python: str | None = None,
    target_python: str | None = None,
    emulator: Path | None = None,
) -> Choice:
    """The engine for a reproducer, as asked for or the nearest to how it was captured.

    ``python`` is the one to use; without it kerncap's own serves, then ``target_python`` (which ran the
    captured program), then the one on PATH. ``emulator``: a folder whose `run` stands in for an AMD GPU.

    Raises BackendUnavailable, naming what is missing; UsageError for contradicting options.
    """
    if engine not in ENGINES:
        raise UsageError(f"--engine {engine}: expected one of {', '.join(ENGINES)}")
    if manifest.device.kind == "hip":
        if (where := _hip(manifest, engine, device, python, emulator)) is not None:
            return where
    elif emulator is not None:
        raise UsageError(
            f"--emulator stands in for an AMD GPU, and {manifest.kernel.name} ran on "
            f"{manifest.device.kind}: leave it out"
        )
    if manifest.launch.mode == "native":
        return _native(manifest, engine, device, python)
    found = _capable(python, target_python)
    ordinal = _ordinal(device, manifest, found)
    launcher = _launcher(manifest, engine, ordinal, found)
    if launcher == "interpreter":
        if manifest.source is None:
            raise BackendUnavailable("the interpreter", "the kernel's source was not found at capture")
        if device.startswith("cuda"):
            raise UsageError("--engine interpreter runs on the host: leave --device out, or say cpu")
        return Choice(found.python, launcher, "host", -1)
    if ordinal < 0:
        reason = found.cuda_reason or "no CUDA device" if device != "cpu" else "--device cpu was given"
        raise BackendUnavailable(f"the {launcher} engine", f"it needs a CUDA device: {reason}")
    if launcher == "jit" and manifest.source is None:
        raise BackendUnavailable(
            "the jit engine", "the kernel's source was not found at capture; try --engine binary"
        )
    if launcher == "binary" and not any(code.stage == "cubin" for code in manifest.code):
        raise BackendUnavailable("the binary engine", "the reproducer holds no cubin; try --engine jit")
    return Choice(found.python, launcher, "cuda", ordinal)


def likely(manifest: Manifest, torch_free: bool = False) -> Choice | None:
    """What `choose` comes to with no option if nothing is missing, without asking another process.

    None if that is no matter of the reproducer only. Of a device no more than a guess: it may not be
    there, which the worker says. ``torch_free``: with `without_torch`, if that takes it.
    """
    kind, native = manifest.device.kind, manifest.launch.mode == "native"
    if kind == "cuda" and native and any(code.stage in NATIVE_STAGES for code in manifest.code):
        return Choice(sys.executable, "native", "cuda", manifest.device.ordinal)
    if manifest.source is None or not own_python_has(("torch", "triton", "numpy")):
        return None
    if kind == "cuda" and torch_free and has_driver():
        return without_torch(Choice(sys.executable, "jit", "cuda", manifest.device.ordinal), manifest)
    return Choice(sys.executable, "interpreter", "host", -1) if kind == "cpu" else None


def own_python_has(names: Sequence[str]) -> bool:
    """Whether kerncap's own Python has all of these packages."""
    return None not in map(importlib.util.find_spec, names)


def without_torch(choice: Choice, manifest: Manifest) -> Choice | None:
    """The choice for a Triton launch, with its image launched by the driver in a process that needs no torch.

    The source is compiled apart. None if that would say another thing: for what ended badly, whose words
    are torch's, and for what was captured in the interpreter, whose memory was the host's.
    """
    compiled = manifest.launch.mode in ("jit", "inductor")
    if choice.launcher not in ("jit", "binary") or choice.memory != "cuda" or not compiled:
        return None
    if choice.hostile or choice.stranger or manifest.oracle.kind in ("fault", "timeout"):
        return None
    return replace(choice, launcher="native", source=choice.launcher == "jit", torch_free=True)


def image_instead(choice: Choice, manifest: Manifest, engine: str) -> Choice | None:
    """The engine for the captured image, if nobody asked for the source, and that does not build here."""
    if (
        engine != "auto"
        or choice.launcher != "jit"
        or not any(code.stage == "cubin" for code in manifest.code)
    ):
        return None
    return replace(choice, launcher="binary")


def _native(manifest: Manifest, engine: str, device: str, python: str | None) -> Choice:
    """A native launch needs a device, and of Python no more than numpy: any will do."""
    if engine not in ("auto", "binary"):
        what = {"jit": "compiles Triton source", "interpreter": "interprets Triton source"}[engine]
        raise UsageError(
            f"--engine {engine} {what}, and {manifest.kernel.name} is a {manifest.kernel.language} kernel: "
            "leave --engine out, or use binary"
        )
    if not any(code.stage in NATIVE_STAGES for code in manifest.code):
        raise BackendUnavailable("the binary engine", "the reproducer holds no image (cubin, PTX or fatbin)")
    found = probe(python or sys.executable)
    if "numpy" in found.missing:
        raise BackendUnavailable("replay", f"{found.python} has no numpy; name one that has it with --python")
    ordinal = _ordinal(device, manifest, found)
    if ordinal < 0:
        reason = found.cuda_reason or "no CUDA device" if device != "cpu" else "--device cpu was given"
        raise BackendUnavailable("the binary engine", f"a native kernel needs a CUDA device: {reason}")
    return Choice(found.python, "native", "cuda", ordinal)


def _hip(
    manifest: Manifest, engine: str, device: str, python: str | None, emulator: Path | None
) -> Choice | None:
    """Where a launch of an AMD GPU is run by its code object; None if a Triton kernel's source will do."""
    from kerncap.replay import amd_devices  # milliseconds, for launches of AMD GPUs only

    interpretable = manifest.kernel.language == "triton" and manifest.source is not None
    if interpretable and (engine == "interpreter" or device == "cpu"):
        return None
    if engine not in ("auto", "binary") and not interpretable:
        why = "the kernel's source was not found at capture"
        if manifest.kernel.language != "triton":
            why = "it is not a Triton kernel"
        raise BackendUnavailable(
            f"the {engine} engine",
            f"{manifest.kernel.name} is run by its code object, {why}; use --engine binary",
        )
    try:
        found = _hip_binary(manifest, device, python, amd_devices.emulator(emulator, manifest))
        return replace(found, source=engine == "jit")
    except BackendUnavailable:
        if interpretable and engine == "auto" and device == "auto" and emulator is None:
            return None
        raise


def _hip_binary(
    manifest: Manifest, device: str, python: str | None, emulator: amd_devices.Emulator | None
) -> Choice:
    from kerncap.replay import amd_devices

    if not any(code.stage == "hsaco" for code in manifest.code):
        raise BackendUnavailable("the binary engine", "the reproducer holds no code object (hsaco)")
    if device == "cpu":
        raise BackendUnavailable(
            "the binary engine", "a code object needs an AMD GPU: --device cpu was given"
        )
    found = amd_devices.probe(python or sys.executable, emulator)
    ordinal = amd_devices.ordinal(device, manifest, found)
    amd_devices.check_arch(manifest, ordinal, found)
    return Choice(found.python, "native", "hip", ordinal, emulator)


def _capable(python: str | None, target_python: str | None) -> Probe:
    """The Python that was asked for; else the first that has what a replay needs: kerncap's own, which may
    live in an environment of its own, or the one that `python` means to the user."""
    return python_with(("torch", "triton", "numpy"), "replay", python, target_python)


def python_to_compile(needed: Sequence[str], what: str, python: str | None) -> str:
    """The Python of `python_with`; of kerncap's own, which is asked at no cost, no other process is."""
    if python in (None, sys.executable) and own_python_has(needed):
        return sys.executable
    return python_with(needed, what, None if python == sys.executable else python).python


def python_with(
    needed: Sequence[str], what: str, python: str | None = None, target_python: str | None = None
) -> Probe:
    """The first Python that has all of ``needed`` (some of torch, triton, numpy), in the order of `choose`.

    Raises BackendUnavailable for ``what``, naming who lacks what.
    """

    def lacking(one: Probe) -> list[str]:
        return [name for name in one.missing if name in needed]

    found = [probe(python or sys.executable)]
    if python is None and lacking(found[0]):
        own = Path(sys.executable).parent
        others = (target_python, child.find("python"), child.find("python3"))
        for other in dict.fromkeys(path for path in others if path and Path(path).parent != own):
            with contextlib.suppress(BackendUnavailable):  # it was not asked for: not running is no error
                found.append(probe(other))
    for each in found:
        if not lacking(each):
            return each
    lacks = ", ".join(f"{each.python} has no {' and no '.join(lacking(each))}" for each in found)
    which = "them" if len(needed) > 1 else "it"
    raise BackendUnavailable(
        what, f"{lacks}; name one that has {which} with --python (the one that ran the captured program)"
    )


def _ordinal(device: str, manifest: Manifest, found: Probe) -> int:
    """The CUDA device that was asked for, -1 for the host."""
    if device == "cpu":
        return -1
    if device == "auto":
        if not found.cuda_devices:
            return -1
        captured = manifest.device.ordinal if manifest.device.kind == "cuda" else 0
        return captured if captured < found.cuda_devices else 0
    kind, _, number = device.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise UsageError(f"--device {device}: expected auto, cpu or cuda:N")
    ordinal = int(number or "0")
    if ordinal >= found.cuda_devices:
        reason = found.cuda_reason or f"this machine shows {found.cuda_devices} of them"
        raise BackendUnavailable(f"CUDA device {ordinal}", reason)
    return ordinal


def _launcher(manifest: Manifest, engine: str, ordinal: int, found: Probe) -> str:
    if engine != "auto":
        return engine
    captured_on_device = manifest.device.kind == "cuda"
    if ordinal >= 0 and captured_on_device:
        return "jit" if manifest.source is not None else "binary"
    if manifest.source is not None:
        return "interpreter"
    raise BackendUnavailable(
        "an engine", f"the reproducer has no source, and its image needs a CUDA device: {found.cuda_reason}"
    )
