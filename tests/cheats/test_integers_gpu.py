"""Values that the launch did not have, on a GPU: candidates are compiled apart, their images launched."""

from __future__ import annotations

import pytest

from .test_integers import rows, test_a_cheat_is_undecided, test_an_honest_rewrite_passes

__all__ = ["rows", "test_a_cheat_is_undecided", "test_an_honest_rewrite_passes"]

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
