"""Every hooked function by every route, and what the wrappers learn, in programs of tests/native/routes.

A failing test prints what went wrong line by line, and the command that repeats it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.native.building import shims, stand_in

RUNTIMES = {"": None, "address": "libasan.so", "thread": "libtsan.so"}


@dataclass(frozen=True)
class Built:
    folder: Path
    stand_in: Path
    runtime: str | None  # of the sanitizer: must be the first library of a process


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, id=n or "plain", marks=[pytest.mark.sanitized] if n else []) for n in RUNTIMES],
)
def built(request: pytest.FixtureRequest) -> Built:
    """The programs, built into the repository's build folder, so that a second run only relinks."""
    sanitizer: str = request.param
    rig = stand_in(sanitizer)
    folder = shims("routes", sanitizer) / "tests/routes"
    library = RUNTIMES[sanitizer]
    runtime = None
    if library is not None:
        found = subprocess.run(
            ["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True
        )
        runtime = found.stdout.strip()
        if not os.path.isabs(runtime):
            pytest.skip(f"needs g++'s {library}")
    return Built(folder, rig, runtime)


def _run(built: Built, command: list[str], libraries: list[Path], **environment: str | None) -> None:
    preload = [built.runtime] if built.runtime else []
    preload += [part for part in (environment.pop("LD_PRELOAD", None) or "").split(":") if part]
    settings: Mapping[str, str | None] = {
        "LD_PRELOAD": ":".join(preload) or None,
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "KERNCAP_SESSION": "unused",
        "ROUTES_SHIM": str(built.folder / "libkerncap_routes.so"),
        "ROUTES_PLUGIN": str(built.folder / "libplugin.so"),
        # What the shim keeps for the life of the process is no leak.
        "ASAN_OPTIONS": "detect_leaks=0",
        **environment,
    }
    shown = [f"{name}={value}" for name, value in settings.items() if value is not None]
    clean = {name: value for name, value in os.environ.items() if name not in settings}
    done = subprocess.run(
        # env, so that only the program itself has the preloads.
        ["env", *shown, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=clean,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{said}\nstatus {done.returncode}: env {' '.join([*shown, *command])}"


def _client(built: Built, scene: str, **environment: str | None) -> None:
    libraries = [built.folder / "versioned"] if scene == "dlvsym" else []
    _run(built, [str(built.folder / "client"), scene], [*libraries, built.folder], **environment)


@pytest.mark.parametrize(
    "route",
    [
        "elf",
        "dlsym",
        "dlvsym",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "hidden",
        "cudaGetDriverEntryPoint",
        "strangers",
    ],
)
def test_every_function_is_reached_by(built: Built, route: str) -> None:
    _client(built, route, LD_PRELOAD=str(built.folder / "libkerncap_routes.so"))


def test_without_a_session_the_driver_is_left_alone(built: Built) -> None:
    shim = str(built.folder / "libkerncap_routes.so")
    _client(built, "unarmed", LD_PRELOAD=shim, KERNCAP_SESSION=None)


def test_a_library_bound_past_the_preload_is_reached(built: Built) -> None:
    if built.runtime:
        pytest.skip("a sanitizer's runtime refuses RTLD_DEEPBIND")
    _client(built, "deepbind", LD_PRELOAD=str(built.folder / "libkerncap_routes.so"))


def test_injected_by_the_driver_with_no_preload(built: Built) -> None:
    shim = str(built.folder / "libkerncap_routes.so")
    _client(built, "injected", CUDA_INJECTION64_PATH=shim)


@pytest.mark.parametrize("first", ["shim", "other"])
def test_beside_another_preload(built: Built, first: str) -> None:
    preloads = [str(built.folder / name) for name in ("libkerncap_routes.so", "libother_preload.so")]
    if first == "other":
        preloads.reverse()
    _client(built, "chained", LD_PRELOAD=":".join(preloads))


@pytest.mark.parametrize(
    "scene",
    ["launches", "libraries", "images", "compiled", "memory", "captures", "graphs", "forked", "together"],
)
def test_what_the_wrappers_learn(built: Built, scene: str) -> None:
    _run(
        built,
        [str(built.folder / "scenes"), scene],
        [built.stand_in, built.folder],
        LD_PRELOAD=str(built.folder / "libkerncap_routes.so"),
        KERNCAP_RIG_KERNELS=str(built.stand_in / "clients" / "librig_test_kernels.so"),
        ROUTES_CAPTURE_ALL="1",
    )


@pytest.mark.parametrize(
    "program",
    [
        ["vector_add", "1000", "3"],
        *(["graphs", how] for how in ("captured", "host_node", "explicit", "child", "inspected")),
        *(["memory_kinds", how] for how in ("managed", "registered", "pool", "segments")),
        ["stream_capture"],
        ["threads"],
        ["devices"],
        ["processes", "fork"],
    ],
    ids="-".join,
)
def test_output_is_unchanged_with_every_launch_captured(built: Built, program: list[str]) -> None:
    if built.runtime:
        pytest.skip("compared once, in the plain build")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(built.stand_in),
        "KERNCAP_RIG_KERNELS": str(built.stand_in / "clients" / "librig_test_kernels.so"),
        "KERNCAP_RIG_DEVICES": "2",
    }
    command = [str(built.stand_in / "clients" / program[0]), *program[1:]]
    alone = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    environment |= {
        "LD_PRELOAD": str(built.folder / "libkerncap_routes.so"),
        "KERNCAP_SESSION": "unused",
        "ROUTES_CAPTURE_ALL": "1",
    }
    under = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert alone.stdout, f"{command} printed nothing to compare: {alone.stderr}"
    assert (under.returncode, under.stdout) == (alone.returncode, alone.stdout)
