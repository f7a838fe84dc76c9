"""Questions that `doctor` asks in a separate process, with a time limit.

Importing torch or starting a driver can crash, hang or write to stdout; kerncap's own process does neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import kerncap
from kerncap import child, scratch

_PACKAGES_TIMEOUT_S = 120.0  # a cold import of torch from a network file system takes this long
_DRIVER_TIMEOUT_S = 30.0
_WORKER = Path(kerncap.__file__).resolve().parent / "replay" / "worker" / "bootstrap.py"

# Runs under the target's Python, which may be older than ours and need not have kerncap. It is a file
# of its own when it runs, because Triton reads a kernel's source from its file.
_PACKAGES_PROBE = r"""
import importlib.util, json, os, platform, sys
found = {"python": platform.python_version(), "executable": sys.executable}
spec = importlib.util.find_spec("sitecustomize")
found["pip"] = importlib.util.find_spec("pip") is not None
found["sitecustomize"] = None if spec is None else (spec.origin or "built in")
real, sys.stdout = sys.stdout, sys.stderr

def attempt(name, action):
    try:
        found[name] = action()
    except BaseException as error:
        text = str(error).strip().splitlines()
        found[name] = {"error": type(error).__name__ + (": " + text[0] if text else "")}

def torch_facts():
    import torch
    build = torch.version
    facts = {"version": torch.__version__, "cuda": build.cuda, "hip": build.hip, "devices": []}
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            facts["devices"].append(
                [torch.cuda.get_device_name(index), list(torch.cuda.get_device_capability(index))])
    return facts

def triton_facts():
    import triton
    return {"version": triton.__version__}

def interpreter_facts():
    import torch, triton, triton.language as tl
    @triton.jit
    def kerncap_doctor(x, y, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
    x, y = torch.arange(6), torch.zeros(6, dtype=torch.int64)
    kerncap_doctor[(1,)](x, y, 5, BLOCK=8)
    assert y.tolist() == [1, 2, 3, 4, 5, 0], "the interpreter computed %r" % (y.tolist(),)
    return {"runs": True}

for name, action in (("torch", torch_facts), ("triton", triton_facts), ("interpreter", interpreter_facts)):
    attempt(name, action)
real.write("\n" + json.dumps(found) + "\n")
real.flush()
os._exit(0)  # nothing in a driver's exit handlers may turn a good answer into a bad one
"""

# As a target is started: the loader has the shim in already, and it has found no session to work for.
_LOADS_PROBE = r"""
import ctypes, json, os, sys
def done(**found):
    print(json.dumps(found), flush=True)
    os._exit(0)
path = os.environ["LD_PRELOAD"].split(":")[0]
with open("/proc/self/maps") as maps:
    loaded = os.path.realpath(path) in maps.read()
if loaded:
    try:
        getattr(ctypes.CDLL(None), "kerncap_%s_live" % sys.argv[1])
    except AttributeError:
        done(error="it is loaded, and is not kerncap's shim")
    done(loads=True)
try:
    ctypes.CDLL(path)
except OSError as error:
    done(error=str(error))
done(error="the loader ignored LD_PRELOAD")
"""


# ROCr's C API alone: HIP's library would take longer and tell less.
_ROCR_PROBE = r"""
import ctypes, json, os, sys
def done(**found):
    print(json.dumps(found), flush=True)
    os._exit(0)
name = "libhsa-runtime64.so.1"
places = [name] + [os.path.join(os.environ[each], "lib", name) for each in ("ROCM_PATH", "HIP_PATH")
                   if os.environ.get(each)] + ["/opt/rocm/lib/" + name]
for place in places:
    try:
        hsa = ctypes.CDLL(place)
        break
    except OSError as failure:
        error = str(failure)
else:
    done(error=error, stage="load")
status = hsa.hsa_init()
if status:
    if not os.path.exists("/dev/kfd"):
        done(error="there is no /dev/kfd", stage="device")
    if not os.access("/dev/kfd", os.R_OK | os.W_OK):
        done(error="this user may not open /dev/kfd", stage="permission")
    text = ctypes.c_char_p()
    hsa.hsa_status_string(status, ctypes.byref(text))
    done(error="hsa_init: " + (text.value or hex(status).encode()).decode(errors="replace"), stage="init")
agents = []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p)
def each(agent, data):
    kind, text = ctypes.c_int(), ctypes.create_string_buffer(64)
    agent = ctypes.c_uint64(agent)
    if hsa.hsa_agent_get_info(agent, 17, ctypes.byref(kind)) == 0 and kind.value == 1:
        if hsa.hsa_agent_get_info(agent, 0, text) == 0:
            agents.append(text.value.decode(errors="replace"))
    return 0
hsa.hsa_iterate_agents(each, None)
build = ctypes.c_char_p()
version = "ROCr of an unknown version"
if hsa.hsa_system_get_info(0x200, ctypes.byref(build)) == 0 and build.value:  # "1.15.0-local-build"
    version = "ROCr " + build.value.decode(errors="replace").partition("-")[0].strip('"')
done(version=version, devices=agents)
"""


def packages(python: str) -> dict[str, Any]:
    """What ``python`` has of torch and triton; a part that failed is ``{"error": why}``."""
    return probe(python, _PACKAGES_PROBE, _PACKAGES_TIMEOUT_S)


def driver(python: str = sys.executable) -> dict[str, Any]:
    """``{"version", "devices": names}`` of the NVIDIA driver, or ``{"error": why, "stage": where}``.

    As a replay worker in ``python`` sees it.
    """
    return probe(python, _WORKER, words=("driver",))


def loads(shim: Literal["cuda", "hip"], path: Path) -> dict[str, Any]:
    """``{"loads": True}`` of a process with the shim at ``path`` preloaded, or ``{"error": why}``."""
    return probe(sys.executable, _LOADS_PROBE, variables={"LD_PRELOAD": str(path)}, words=(shim,))


def rocr(emulator: str | None = None) -> dict[str, Any]:
    """``{"version", "devices": names}`` of ROCr, or ``{"error": why, "stage": where}``.

    ``emulator`` is the folder of an emulated GPU, to be asked instead.
    """
    return probe(sys.executable, _ROCR_PROBE, prefix=_started_by(emulator))


def _started_by(emulator: str | None) -> tuple[str, ...]:
    return (os.path.abspath(os.path.join(emulator, "run")),) if emulator else ()


def entries(shim: Literal["cuda", "hip"], path: Path, emulator: str | None = None) -> dict[str, str | None]:
    """By which of its two ways into a process a shim is called: None if it is, else what was said.

    It is given a session, and leaves a mark in it when the driver, or ROCr, calls it, and another one if
    it was by rocprofiler-register, which is then named with the way.
    """
    from kerncap.capture import session_file
    from kerncap.capture.options import (
        CaptureOptions,
        Run,
    )  # with it come numpy and what else reads reproducers

    program, ways = _ENTRIES[shim]
    found: dict[str, str | None] = {}
    for way in ways:
        with scratch.temporary("doctor") as folder:
            options = CaptureOptions(Run(("doctor",), backend=shim, list_only=True))
            told = session_file.SessionFile.of(options, "doctor", f"{folder}/socket")
            Path(folder, session_file.NAME).write_bytes(told.encode())
            preloaded = os.environ.get("LD_PRELOAD")
            variables = {**dict.fromkeys(ways), "LD_PRELOAD": preloaded, "KERNCAP_SESSION": folder}
            variables[way] = ":".join(filter(None, (str(path), variables[way])))
            prefix = _started_by(emulator)
            answer = probe(sys.executable, program, variables=variables, prefix=prefix, words=("driver",))
            marks = {name.partition("-")[0] for name in os.listdir(folder)}
            called = shim in marks
            way += " and rocprofiler-register" if "rocprofiler" in marks else ""
            found[way] = None if called else str(answer.get("error", "it was not called"))
    return found


# What calls a shim, and the variables that bring it in, each alone.
_ENTRIES: dict[str, tuple[str | Path, tuple[str, str]]] = {
    "cuda": (_WORKER, ("LD_PRELOAD", "CUDA_INJECTION64_PATH")),
    "hip": (_ROCR_PROBE, ("HSA_TOOLS_LIB", "LD_PRELOAD")),
}


def probe(
    python: str,
    program: str | Path,
    timeout_s: float = _DRIVER_TIMEOUT_S,
    *,
    variables: Mapping[str, str | None] | None = None,
    prefix: Sequence[str] = (),
    words: Sequence[str] = (),
) -> dict[str, Any]:
    """The JSON object on the program's last line, or ``{"error": why}``; never raises.

    ``program`` is a script's text, or its file.
    ``variables`` are set (None: unset) for the program alone; ``prefix`` goes before the interpreter,
    ``words`` after the program.
    """
    environment = {k: v for k, v in os.environ.items() if k != "KERNCAP_SESSION"}
    environment["TRITON_INTERPRET"] = "1"
    for name, value in (variables or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    with scratch.temporary("doctor") as folder:
        path, out, err = (Path(folder, name) for name in ("probe.py", "out", "err"))
        if isinstance(program, Path):
            path = program
        else:
            path.write_text(program)
        try:
            with out.open("wb") as stdout, err.open("wb") as stderr:
                command = [*prefix, *child.python(python, path, *words)]
                process = child.Child(command, env=environment, stdout=stdout, stderr=stderr)
        except OSError as error:
            return {"error": f"{[*prefix, python][0]} can't be started: {error.strerror}", "stage": "probe"}
        if not _ends_within(process, timeout_s):
            return {"error": f"no answer within {timeout_s:.0f} s", "stage": "probe"}
        lines = out.read_text(errors="replace").strip().splitlines()
        said = err.read_text(errors="replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        answer = None
    if not isinstance(answer, dict):
        detail = f"the probe ended with status {process.returncode}" + (f": {said[-1]}" if said else "")
        return {"error": detail, "stage": "probe"}
    return answer


def _ends_within(process: child.Child, timeout_s: float) -> bool:
    """Wait, then kill the process and all that it started; a process stuck in a driver is left behind."""
    try:
        process.wait(timeout_s)
        return True
    except subprocess.TimeoutExpired:
        pass
    try:
        process.kill_all()
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        pass  # in an uninterruptible call even SIGKILL waits; the answer is the same
    return False
