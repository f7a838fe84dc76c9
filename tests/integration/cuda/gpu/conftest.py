"""What the tests of a file share."""

from __future__ import annotations

import ctypes

import pytest

from tests.integration.conftest import CommandLine

from .captured import Judge


@pytest.fixture(scope="module")
def judge(kerncap_of_module: CommandLine) -> Judge:
    """Answers about reproducers, each asked once for all tests of a file."""
    return Judge(kerncap_of_module)


@pytest.fixture
def two_devices() -> None:
    count = ctypes.c_int()
    libcuda = ctypes.CDLL("libcuda.so.1")
    assert libcuda.cuInit(0) == 0 and libcuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    if count.value < 2:
        pytest.skip(f"needs two GPUs, here is {count.value}")
