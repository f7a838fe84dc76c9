"""What a proof takes a CUDA kernel for is what the device does, on captured inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kerncap.api.prove import ProveOptions, prove
from kerncap.api.prove.proof_launches import captured as captured_launch
from kerncap.format import Reproducer
from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.equality.kernel_runs import Kernel, kernel_of
from kerncap.sanitizer.equality.numbers import Array, Ints, Words, named
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.equality.ptx.run import PtxRun
from kerncap.sanitizer.equality.readable_inputs import INPUTS, Reals
from kerncap.sanitizer.sources.reproducer import ReproducerContents
from tests.integration.conftest import CommandLine
from tests.integration.equality.cuda.pairs import EQUAL

from .captured import Captured, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

KERNELS = [one.kernel for pair in EQUAL.values() for one in pair]


@pytest.fixture(scope="module")
def launches(kerncap_of_module: CommandLine) -> Captured:
    return capture(kerncap_of_module, build("proofs.cu"))


class Contents(Reals):
    """What was in the memory."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(INPUTS[0], 0)
        self._held = {int(named(name)[0]): index for index, name in enumerate(kernel.names)}
        self._contents = kernel.launch.contents

    def drawn(self, key: Words, places: Ints, element: str) -> Array:
        found = self._contents.read(self._held[int(key[0])])
        assert found is not None
        return decoded(found.whole(), element)[places]


def decoded(data: npt.NDArray[np.uint8], element: str) -> Array:
    width = {"f16": 2, "f32": 4}[element]
    return formats.decode(data[: len(data) // width * width].view(f"u{width}"), element).astype(np.float64)


def one_of(launches: Captured, kernel: str) -> Path:
    [found] = [path for path, manifest in launches.reproducers.items() if manifest.kernel.name == kernel]
    return found


@contextmanager
def explained(launch: PtxLaunch) -> Iterator[None]:
    """A failure says what was run."""
    try:
        yield
    except BaseException as error:
        start = launch.ptx.find(f".entry {launch.entry}(")
        error.add_note("\n".join([*map(str, launch.arguments), *launch.ptx[start:].split("\n")[:40]]))
        raise


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_run_leaves_what_the_device_left(launches: Captured, kernel: str) -> None:
    launches.target_is_unchanged()
    with Reproducer.open(one_of(launches, kernel)) as reproducer:
        launch = captured_launch(reproducer, trusted=True)
        assert isinstance(launch, PtxLaunch)
        with explained(launch):
            agrees(launch)


def agrees(launch: PtxLaunch) -> None:
    read = kernel_of(launch)
    [module] = read.modules
    numbers = Contents(read)
    ran = PtxRun(module, launch, numbers, read.names, rounds=True)  # type: ignore[arg-type]
    ran.run(Limits(element_operations=1 << 30, seconds=120.0))
    contents = launch.contents
    assert isinstance(contents, ReproducerContents)
    written = 0
    for index, held in ran.floats.storages.items():
        places = np.flatnonzero(held.written)
        written += len(places)
        device = decoded(contents.after(index).whole(), held.element.name)[places]
        loose = 2e-3 if held.element.name == "f16" else 1e-5
        assert np.allclose(held.read(places), device, rtol=loose, atol=loose)
        before = decoded(contents.read(index).whole(), held.element.name)  # type: ignore[union-attr]
        others = np.flatnonzero(~held.written)
        after = decoded(contents.after(index).whole(), held.element.name)
        assert np.array_equal(before[others], after[others], equal_nan=True)
    for index, runs in ran.memory.changed().items():
        for start, _, after in runs:
            written += len(after)
            assert np.array_equal(after, contents.after(index).whole()[start : start + len(after)])
    assert written


@pytest.mark.parametrize(
    "pair", ["axpy", "silu", "relu", "half", "softmax", "transpose", "matmul", "tensor cores", "counts"]
)
def test_captured_pairs_are_proved(launches: Captured, pair: str) -> None:
    first, second = (one_of(launches, one.kernel) for one in EQUAL[pair])
    found = prove(first, second, ProveOptions(trust=True))
    assert found.words.result == "pass", found.words.reasons
