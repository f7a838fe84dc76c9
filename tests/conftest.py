"""Profiles of the property tests, and what a test marked ``gpu`` needs."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.integration import forked_commands

if any(type(finder).__name__ == "ScikitBuildRedirectingFinder" for finder in sys.meta_path):
    pytest.exit("the editable install is an old one: pip install --no-deps --no-build-isolation -e .", 4)

# Several tests run at once, and each starts processes that import torch: one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A mistake inside the sanitizer is told as "unproven" to a user; here it fails the test.
os.environ.setdefault("KERNCAP_SANITIZER_STRICT", "1")
# What only a machine that is slow and busy would leave out.
os.environ.setdefault("KERNCAP_SELF_CHECK_TIMEOUT", "300")

# `make test` takes the same seeded slice every time; `make fuzz` runs the campaign whole.
# No deadline: a shared machine is slow at times, and a slow example is not a wrong one.
settings.register_profile("slice", max_examples=60, derandomize=True, deadline=None)
settings.register_profile(
    "campaign",
    max_examples=int(os.environ.get("KERNCAP_FUZZ_EXAMPLES", "5000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("slice")


@pytest.fixture(autouse=True)
def _private_configuration(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What is trusted in a test is remembered for that test only; few need the folder, so none is made.

    It has the same name in all tests: processes that outlive one find the environment that they started in.
    """
    folder = tmp_path_factory.getbasetemp() / "config-of-a-test"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    if "kerncap.replay.trust" in sys.modules:
        monkeypatch.setattr("kerncap.replay.trust._agreed", set())
    yield
    if folder.exists():
        shutil.rmtree(folder)


class _TestFile(pytest.Module):
    """A file of tests; one that imports torch or triton is skipped if that is not installed."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            missing = getattr(error.__cause__, "name", None) or ""
            if missing.partition(".")[0] in ("torch", "triton"):
                pytest.skip(f"{missing} is not installed", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    module: pytest.Module = _TestFile.from_parent(parent, path=module_path)
    return module


# One process forks commands for all workers: `tests/integration/forked_commands.py`.
@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["forked_commands"] = forked_commands.addresses()


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {}).get("forked_commands")
    if given is not None:
        forked_commands.use(given)


# Ten thousand tests and torch are no garbage: leave them out where Python looks for some.
def pytest_collection() -> None:
    gc.disable()


# Workers take files in this order: what takes seconds first, so that none waits for another at the end.
_FIRST = ("integration", "native", "unit/source", "unit/replay", "hostile", "unit/hook", "fuzz", "cheats")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        found = (at for at, folder in enumerate(_FIRST) if item.nodeid.startswith(f"tests/{folder}/"))
        return next(found, len(_FIRST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    # Libraries look at the end of Python for what is still there; pytest looks before, for what tests left.
    atexit.register(gc.unfreeze)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="where there is no GPU, fail what needs one")


@cache
def _no_gpu() -> str | None:
    """Why there is no NVIDIA GPU, or None. Asks the driver: a broken torch must fail its tests."""
    try:
        libcuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    count = ctypes.c_int()
    status = libcuda.cuInit(0) or libcuda.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return f"the driver answers {status}"
    return None if count.value else "the driver has no device"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    reason = _no_gpu()
    if reason is not None:
        if item.config.getoption("--require-gpu"):
            pytest.fail(f"needs an NVIDIA GPU: {reason}", pytrace=False)
        pytest.skip(f"needs an NVIDIA GPU: {reason}")
