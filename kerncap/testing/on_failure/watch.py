"""The pytest that the user starts: it waits for the one that runs the tests, then sees to the failed ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kerncap import log, scratch, whole_files
from kerncap.capture.target import Target, TargetResult
from kerncap.errors import KerncapError
from kerncap.printable import printable
from kerncap.testing.on_failure.notes import FOLDER, FailedTest, Notes
from kerncap.testing.on_failure.rerun import Left, Pytest
from kerncap.testing.on_failure.summary import markdown, text

MOST_TESTS = 10  # that run again; more failures than these have few causes
SUMMARY = "failures.md"
# Reports of a run that the same run of one test would overwrite, by the plugin that writes them.
_APART = {"xdist": ("-n0",), "pytest_cov": ("--no-cov",)}


def watch(config: pytest.Config, output: Path) -> int:
    """Run the tests, then each that failed again; the exit status of the first. Raises pytest.UsageError."""
    if config.invocation_params.plugins:
        raise pytest.UsageError("--kerncap-on-failure: plugins are given as objects; name modules with -p")
    words = [*_pytest_words(), *map(str, config.invocation_params.args)]
    folder = config.invocation_params.dir
    summary = output / SUMMARY
    if summary.is_file():
        summary.unlink()  # of an earlier run
    with scratch.temporary("pytest") as place:
        notes = Notes(Path(place))
        environment = {**os.environ, FOLDER: place}
        started = Target.start(words, environment)
        if isinstance(started, TargetResult):
            raise pytest.UsageError(f"--kerncap-on-failure: {started.error}")
        ended = started.wait()
        failed = notes.failed()
        crashed = notes.running() if ended.signal is not None else None
        if crashed is not None:
            failed = [*(each for each in failed if each.test != crashed), FailedTest(crashed, "fault")]
        if ended.forwarded is None and failed:
            apart = _apart(config, place)
            _look_after(failed, Pytest([*words, *apart], folder, environment, notes), output)
    return ended.status


def _look_after(failed: Sequence[FailedTest], run: Pytest, output: Path) -> None:
    left: list[Left] = []
    print(f"kerncap: {len(failed)} failed; running them again under capture", flush=True)
    for each in failed[:MOST_TESTS]:
        left.append(run.again(each, output))
        print(printable(text(left[-1])), flush=True)
    if len(failed) > MOST_TESTS:
        print(f"kerncap: {len(failed) - MOST_TESTS} more failed and were not run again", flush=True)
    try:
        output.mkdir(parents=True, exist_ok=True)
        whole_files.write(output / SUMMARY, markdown(left, len(failed), output))
    except (KerncapError, OSError) as error:
        log.line(log.one_line(error))


def _pytest_words() -> list[str]:
    """How pytest was started: `pytest` and `python -m pytest` differ in what they import from."""
    if os.path.basename(sys.argv[0]) in ("pytest", "py.test") and os.path.isfile(sys.argv[0]):
        return [sys.executable, os.path.abspath(sys.argv[0])]
    return [sys.executable, "-m", "pytest"]


def _apart(config: pytest.Config, place: str) -> list[str]:
    """Options behind the user's own, so that a test that runs again changes no report and no cache."""
    has = config.pluginmanager.hasplugin
    words = [word for plugin, options in _APART.items() if has(plugin) for word in options]
    if has("junitxml"):
        words.append(f"--junitxml={os.path.join(place, 'junit.xml')}")
    if has("cacheprovider"):
        words += ["-o", f"cache_dir={os.path.join(place, 'cache')}"]
    return words
