"""What the tests of a file share."""

from __future__ import annotations

import pytest

from tests.integration.conftest import CommandLine

from .captured import Judge


@pytest.fixture(scope="module")
def judge(kerncap_of_module: CommandLine) -> Judge:
    """Answers about reproducers, each asked once for all tests of a file."""
    return Judge(kerncap_of_module)
