"""Where a worker gets cuda.bindings from, and what is said where there are none; on the stand-in driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from kerncap.replay.worker import cuda_bindings
from kerncap.replay.worker.common.failures import Refused
from kerncap.replay.worker.cuda.driver import CudaError, Driver
from tests.native.building import ROOT, stand_in

pytest.importorskip("cuda.bindings.driver")
SUFFIX = EXTENSION_SUFFIXES[0]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder in which kerncap is installed, as far as a worker needs it."""
    package = tmp_path / "kerncap"
    shutil.copytree(ROOT / "replay" / "worker", package / "replay" / "worker")
    (package / "__init__.py").touch()
    return tmp_path


def asked(folder: Path, what: str) -> Any:
    """The answer of a worker's code to a question, in a Python without any package."""
    script = folder / "kerncap" / "replay" / "worker" / "bootstrap.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, what],
        env={**os.environ, "LD_LIBRARY_PATH": str(stand_in())},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_they_are_taken_from_beside_an_installed_kerncap_and_nothing_else_is(installed: Path) -> None:
    own = cuda_bindings.folder()
    assert own is not None
    (installed / "cuda").symlink_to(own)
    (installed / "numpy").mkdir()
    (installed / "numpy" / "__init__.py").touch()
    answer = asked(installed, "driver")
    assert answer["version"].startswith("CUDA ") and answer["devices"] == ["kerncap stand-in device"]
    answer = asked(installed, "packages")
    assert (answer["cuda"], answer["cuda_reason"], answer["numpy"]) == (1, "", False)


@pytest.mark.parametrize("of", ["nobody", "another Python"])
def test_where_there_are_none_it_says_what_to_install(installed: Path, of: str) -> None:
    if of == "another Python":
        (installed / "cuda" / "bindings").mkdir(parents=True)
        (installed / "cuda" / "bindings" / "driver.cpython-39-x86_64-linux-gnu.so").touch()
    answer = asked(installed, "driver")
    assert answer["stage"] == "bindings" and answer["error"].endswith("has no cuda-bindings")
    assert f"-m pip install '{cuda_bindings.REQUIREMENT}'" in asked(installed, "packages")["cuda_reason"]


def test_a_folder_beside_a_checkout_is_not_kerncaps(installed: Path) -> None:
    (installed / "kerncap" / "__init__.py").unlink()
    (installed / "cuda" / "bindings").mkdir(parents=True)
    (installed / "cuda" / "bindings" / f"driver{SUFFIX}").touch()
    assert asked(installed, "driver")["stage"] == "bindings"


# --- calls -----------------------------------------------------------------------------------------------


class Api:
    """In place of `cuda.bindings.driver`: what a driver that does not fit it makes of a call."""

    class CUresult(int):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"

        def __new__(cls, number: int) -> Any:
            if number != 700:
                raise ValueError(f"{number} is not a valid CUresult")
            return int.__new__(cls, number)

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def cuCtxSynchronize(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def driver(answer: Any) -> Driver:
    found: Driver = object.__new__(Driver)
    found.api = Api(answer)
    return found


@pytest.mark.parametrize(
    ("answer", "value"), [((0,), None), ((0, 5), 5), ((0, 5, 6), (5, 6)), ((0, 0), 0), ((0, []), [])]
)
def test_a_call_gives_what_comes_after_its_status(answer: tuple[Any, ...], value: Any) -> None:
    assert driver(answer).call("cuCtxSynchronize") == value


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ((700, None), "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (ValueError("12345 is not a valid CUresult"), "error 12345"),  # 13.5 of cuda-bindings
        (KeyError(12345), "error 12345"),  # 12.9 and 13.0
    ],
)
def test_what_fails_is_raised_by_its_name(answer: Any, named: str) -> None:
    with pytest.raises(CudaError, match=f"^cuCtxSynchronize: {named}$"):
        driver(answer).call("cuCtxSynchronize")
    assert driver(answer).status("cuCtxSynchronize") in (700, 12345)


def test_a_mistake_of_ours_is_no_status() -> None:
    with pytest.raises(ValueError, match="an embedded null"):
        driver(ValueError("an embedded null byte")).status("cuCtxSynchronize")


def test_a_call_that_is_missing_is_refused_by_its_name() -> None:
    with pytest.raises(Refused, match="this CUDA driver has no cuCtxSynchronize"):
        driver(RuntimeError('Function "cuCtxSynchronize" not found')).call("cuCtxSynchronize")
    with pytest.raises(Refused, match="this cuda-bindings has no cuNever"):
        driver((0,)).call("cuNever")
