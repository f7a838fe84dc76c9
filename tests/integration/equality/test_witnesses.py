"""Inputs that show a difference, given to the kernels themselves under Triton's interpreter."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kerncap.sanitizer.equality.kernel_runs import constants, kernel_of, scalars
from kerncap.sanitizer.equality.numbers import named
from kerncap.sanitizer.equality.proof import prove
from kerncap.sanitizer.equality.readable_inputs import INPUTS, Reals, beside
from kerncap.sanitizer.equality.witness import Witness
from tests.integration.equality.pairs import UNEQUAL, launched

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
_SEED = 5
_ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16"}
_NOT_INTERPRETED = ("cube and square",)  # it calls a function of CUDA's library
_PROGRAM = """
import pickle, sys
from tests.integration.equality.pairs import UNEQUAL
left = {}
for name, (arguments, place) in pickle.load(open(sys.argv[1], "rb")).items():
    left[name] = []
    for run in UNEQUAL[name][1:]:
        own = [one.clone() if hasattr(one, "clone") else one for one in arguments]
        run.kernel[run.grid](*own, **run.constants)
        left[name].append(own[place].double().reshape(-1).numpy())
pickle.dump(left, open(sys.argv[2], "wb"))
"""


def _filled(name: str, witness: Witness) -> tuple[list[Any], int]:
    """The arguments that the witness says, and which of them shows the difference."""
    make, *runs = UNEQUAL[name]
    kernels = [kernel_of(launched(make(), one)) for one in runs]
    known = [one for kernel in kernels for one in constants(kernel)]
    known += scalars(*kernels).values()
    [inputs] = [one for one in (*INPUTS, beside(known)) if one.words == witness.inputs]
    numbers, arguments = Reals(inputs, _SEED), list[Any]()
    names = runs[0].kernel.arg_names
    for argument, given in zip(names, make(), strict=False):
        if isinstance(given, torch.Tensor) and given.is_floating_point():
            places = np.arange(given.numel())
            drawn = numbers.drawn(named(argument), places, _ELEMENTS[given.dtype])
            given = torch.from_numpy(drawn).reshape(given.shape).to(given.dtype)
        arguments.append(given)
    return arguments, names.index(witness.tensor)


def test_the_kernels_themselves_differ_by_what_the_witness_says(tmp_path: Path) -> None:
    found: dict[str, Witness] = {}
    for name, (make, *runs) in UNEQUAL.items():
        witness = prove(*(kernel_of(launched(make(), one)) for one in runs), seed=_SEED).witness
        if witness is not None and name not in _NOT_INTERPRETED:
            found[name] = witness
    given, left = tmp_path / "given", tmp_path / "left"
    given.write_bytes(pickle.dumps({name: _filled(name, one) for name, one in found.items()}))
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, given, left],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
        check=True,
    )
    for name, results in pickle.loads(left.read_bytes()).items():
        one = found[name]
        first, second = (float(result[one.element]) for result in results)
        assert first != second, name
        np.testing.assert_allclose([first, second], [one.first, one.second], rtol=1e-4, err_msg=name)
    assert len(found) == 36
