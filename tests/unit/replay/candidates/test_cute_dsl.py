"""CuTe DSL's kernels are rebuilt by CuTe DSL: by the one that KERNCAP_TEST_CUTE_DSL names or that is here."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import pytest

from kerncap.capture import images, languages
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.replay import candidates
from kerncap.replay.candidates import BuildError, tools
from tests.unit.replay.candidates.conftest import Make, here, rebuilt
from tests.unit.source.cute_dsl.test_cute_dsl import CUBINS, HERE, NAMES, request_for


def made_of(make: Make, kernel: str, folder: Path) -> Reproducer:
    folder.mkdir()
    shutil.copy(HERE / "kernels.py", folder)
    return make(languages.find(request_for(kernel, folder)), NAMES[kernel])


built = functools.partial(rebuilt, variable="KERNCAP_TEST_CUTE_DSL")


def test_without_it_the_reason_names_it(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "python_compiler", lambda language, python=None: f"no Python has {language}")
    with pytest.raises(BackendUnavailable, match="CuTe DSL is not available: no Python has cute-dsl"):
        built(made_of(make, "scaled_add", tmp_path / "app"), tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kernel", "old", "wrong"),
    [
        ("scaled_add", "amplified(x[i]) * alpha + y[i]", "undeclared(x[i])"),
        ("kernel", "pick(x[i], self.dtype(weight))", "undeclared(x[i])"),
    ],
)
def test_it_makes_the_captured_kernel_again(
    kernel: str, old: str, wrong: str, make: Make, tmp_path: Path
) -> None:
    here(tools.python_compiler("cute-dsl", os.environ.get("KERNCAP_TEST_CUTE_DSL")))
    reproducer = made_of(make, kernel, tmp_path / "app")
    again = built(reproducer, tmp_path)
    assert images.Cubin(again).layout(NAMES[kernel]) == images.Cubin(CUBINS[kernel]).layout(NAMES[kernel])
    other = built(reproducer, tmp_path, old, f"{old} + {old}")
    assert images.Cubin(other).layout(NAMES[kernel]) is not None and other != again
    with pytest.raises(BuildError, match="undeclared") as raised:
        built(reproducer, tmp_path, old, wrong)
    text = reproducer.source_text()
    assert text is not None
    assert candidates.first_place(raised.value.detail).line == 1 + text[: text.index(old)].count("\n")
