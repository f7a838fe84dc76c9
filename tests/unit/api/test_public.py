"""The public surface: complete, documented, lazy, and the same whatever was imported before."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kerncap
import kerncap.api

SOURCE = Path(kerncap.api.__file__)


@pytest.mark.parametrize("name", kerncap.api.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(kerncap.api, name)
    assert not name.startswith("_") and not inspect.ismodule(found)
    assert inspect.getdoc(found), f"kerncap.api.{name} has no docstring"


def test_the_types_say_the_same_names() -> None:
    """What type checkers and the reference see, and what is there at run time."""
    for_checkers = {
        (node.module, alias.name, alias.asname or alias.name)
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kerncap.")
        for alias in node.names
    }
    at_run_time = {
        (module, name.partition(" as ")[0], name.partition(" as ")[2] or name)
        for module, names in kerncap.api._PUBLIC.items()
        for name in names
    }
    assert for_checkers == at_run_time
    assert {shown for _, _, shown in at_run_time} == set(kerncap.api.__all__) == set(dir(kerncap.api))


def test_a_module_of_the_same_name_does_not_take_its_place() -> None:
    module = importlib.import_module("kerncap.api.replay")
    assert kerncap.api.replay is module.replay
    from kerncap.api import replay

    assert replay is module.replay


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = kerncap.api.nothing_of_the_kind  # type: ignore[attr-defined]


def test_importing_it_loads_nothing() -> None:
    script = "import sys, kerncap.api; print({'numpy', 'msgspec', 'torch', 'triton'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_replay_loads_no_sanitizer() -> None:
    script = (
        "import sys, kerncap.api.verify, kerncap.api.capture, kerncap.cli.verify, kerncap.cli.replay\n"
        "print([name for name in sys.modules if name.startswith('kerncap.sanitizer')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_call_that_would_run_the_kernel_is_refused(tmp_path: Path) -> None:
    script = (
        "import triton, triton.language as tl\n"
        "from kerncap.api import UsageError, sanitize_call\n"
        "@triton.autotune([triton.Config({'B': 16})], key=[])\n"
        "@triton.jit\n"
        "def kernel(x, B: tl.constexpr): pass\n"
        "try:\n    sanitize_call(kernel, None, grid=(1,))\n"
        "except UsageError as error:\n    print(error)\n"
    )
    file = tmp_path / "call.py"
    file.write_text(script)
    done = subprocess.run(
        [sys.executable, file], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert "decorated under TRITON_INTERPRET=1" in done.stdout, done.stderr


def test_it_is_typed() -> None:
    assert (Path(kerncap.__file__).parent / "py.typed").is_file()


def test_functions_have_types() -> None:
    for name in kerncap.api.__all__:
        found = getattr(kerncap.api, name)
        if inspect.isfunction(found):
            signature = inspect.signature(found)
            assert signature.return_annotation is not signature.empty, name
            for parameter in signature.parameters.values():
                assert parameter.annotation is not parameter.empty, (name, parameter.name)
