"""What the evaluator leaves in memory is what Triton's own interpreter leaves there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.sanitizer.concrete.cases import CASES, Tensor
from tests.unit.sanitizer.concrete.launches import run

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    output = tmp_path_factory.mktemp("interpreted") / "after.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.unit.sanitizer.concrete.interpreted", str(output)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    with np.load(output) as found:
        return dict(found)


@pytest.mark.parametrize("name", CASES)
def test_memory_after(name: str, interpreted: dict[str, np.ndarray]) -> None:
    case = CASES[name]
    assert f"{name}!" not in interpreted, interpreted.get(f"{name}!")
    outcome, after = run(name)
    assert outcome.complete, outcome.reason
    for argument, value in case.arguments.items():
        if not isinstance(value, Tensor):
            continue
        wanted = interpreted[f"{name}:{argument}"].view(value.data.dtype)
        got = after.get(argument, value.data)
        if case.tolerance:
            np.testing.assert_allclose(got, wanted, case.tolerance, case.tolerance, err_msg=argument)
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=argument)
