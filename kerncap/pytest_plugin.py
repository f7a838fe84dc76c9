"""kerncap in pytest: reproducers as tests (``--kerncap``), Triton launches of tests under the sanitizer
(``--kerncap-sanitize``), and reproducers of what failed tests launched (``--kerncap-on-failure``).

Without these options it costs the import of these files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.testing import corpus, on_failure, sanitizing


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kerncap", "kerncap: GPU kernel launches")
    corpus.add_options(group)
    sanitizing.add_options(group)
    on_failure.add_options(group)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    corpus.refuse_conftests(early_config)


def pytest_configure(config: pytest.Config) -> None:
    on_failure.configure(config)
    corpus.configure(config)
    sanitizing.configure(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return corpus.is_left_out(collection_path, config) or None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    return on_failure.main(config)
