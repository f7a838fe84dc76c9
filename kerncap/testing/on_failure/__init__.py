"""``pytest --kerncap-on-failure``: a failed test leaves reproducers of the launches that are to blame.

Three processes, so that a test that ends its own is known, and that a test that passes costs nothing:

- the pytest that the user starts only waits (`watch`);
- it starts the same pytest once more, which runs the tests and notes those that fail (`notes`);
- each of these runs again by itself under ``kerncap capture`` (`again`), and of the captured launches those
  stay that wrote the tensors of the failing test last (`blamed`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerncap.testing.on_failure.notes import FOLDER, Notes, notes_of

OPTION = "--kerncap-on-failure"
FAILURES = "--kerncap-failures"
NAME = "kerncap-on-failure"


def add_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        OPTION, action="store_true",
        help="run failed tests again under capture; keep reproducers of the launches to blame",
    )  # fmt: skip
    group.addoption(
        FAILURES, default="kerncap-failures", metavar="DIR",
        help="where --kerncap-on-failure puts reproducers and failures.md (default: kerncap-failures)",
    )  # fmt: skip


def configure(config: pytest.Config) -> None:
    """In the process that runs the tests: register what notes those that fail. Before `sanitizing`."""
    place = os.environ.get(FOLDER)
    if config.getoption(OPTION) and place:
        os.environ[FOLDER] = ""  # what the tests start is neither watched nor noted
        notes = Notes(Path(place))
        if notes.chosen() is not None:  # the sanitizer and a capture don't go together
            config.option.kerncap_sanitize = config.option.kerncap_sarif = None
        config.pluginmanager.register(notes_of(notes), NAME)


def main(config: pytest.Config) -> int | None:
    """The exit status of the pytest that waits; None in one that runs tests, and in all that this starts."""
    if not config.getoption(OPTION) or FOLDER in os.environ:
        return None
    from kerncap.testing.on_failure.watch import watch

    return watch(config, config.invocation_params.dir / str(config.getoption(FAILURES)))
