"""``pytest --kerncap-sanitize``: a test that launches a Triton kernel with a finding fails.

Kernels on CPU tensors are carried out by kerncap: the tests need no GPU, and no ``TRITON_INTERPRET``.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerncap.printable import printable
from kerncap.testing.corpus import STRICT

if TYPE_CHECKING:
    from kerncap.api.sanitize.this_process import SanitizedHere

ALL = "all"
NAME = "kerncap-sanitize"
BASELINE = "--kerncap-baseline"


class SanitizeWarning(pytest.PytestWarning):
    """A launch that could not be checked."""


def add_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--kerncap-sanitize",
        nargs="?",
        const=ALL,
        default=None,
        metavar="CHECKS",
        help="check every Triton launch; a finding fails its test. Needs no GPU for kernels on CPU tensors. "
        "CHECKS: some of oob,race,uninit,overflow,promise,alignment,descriptor (default: all)",
    )
    group.addoption(
        "--kerncap-sanitize-bounds",
        choices=("view", "storage", "allocation"),
        default="storage",
        help="memory that an access must stay inside (default: storage)",
    )
    group.addoption(
        BASELINE,
        default=None,
        metavar="FILE",
        help="SARIF that kerncap sanitize wrote: findings in it are known and fail no test",
    )


def configure(config: pytest.Config) -> None:
    checks = config.getoption("--kerncap-sanitize")
    if checks is not None:
        plugin = Sanitizing(
            checks,
            config.getoption("--kerncap-sanitize-bounds"),
            bool(config.getoption(STRICT)),
            config.getoption(BASELINE),
        )
        config.pluginmanager.register(plugin, NAME)


class Sanitizing:
    """Registered with the option only."""

    def __init__(self, checks: str, bounds: Any, strict: bool, baseline: str | None) -> None:
        from kerncap.api.sanitize.this_process import SanitizedHere
        from kerncap.errors import KerncapError
        from kerncap.sanitizer.analysis import Options
        from kerncap.sanitizer.findings import CHECKS

        names = CHECKS if checks == ALL else tuple(name.strip() for name in checks.split(",") if name.strip())
        unknown = [name for name in names if name not in CHECKS]
        if unknown or not names:
            raise pytest.UsageError(
                f"--kerncap-sanitize={checks}: {', '.join(unknown) or 'nothing'} is not a check; "
                f"choose from {', '.join(CHECKS)}"
            )
        try:
            self._here: SanitizedHere = SanitizedHere(Options(checks=frozenset(names), bounds=bounds))
        except KerncapError as error:
            raise pytest.UsageError(f"--kerncap-sanitize: {error}") from error
        self._strict = strict
        self._baseline = None
        if baseline is not None:
            from kerncap.report import sanitize_baseline

            try:
                self._baseline = sanitize_baseline.read(Path(baseline))
            except KerncapError as error:
                raise pytest.UsageError(f"{BASELINE}: {error}") from error
        self.findings = self.undecided = self.known = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._judged(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._judged(item, "teardown"))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._here.launches:  # under xdist the workers have them
            terminalreporter.write_line(
                f"kerncap sanitize: launches: {self._here.launches}, findings: {self.findings}, "
                f"undecided: {self.undecided}{f', known: {self.known}' if self._baseline else ''}"
            )

    def _judged(self, item: pytest.Item, when: str) -> Generator[None, Any, Any]:
        """What a fixture launched before the test belongs to the test."""
        try:
            result = yield
        except BaseException:
            text = self._text(item)
            if text:
                item.add_report_section(when, "kerncap sanitize", text)
            raise
        text = self._text(item)
        if text:
            pytest.fail(text, pytrace=False)
        return result

    def _text(self, item: pytest.Item) -> str:
        from kerncap.answer import Answer
        from kerncap.api.sanitize.this_process import NOT_SANITISED
        from kerncap.report.sanitize_baseline import counts_of_run

        reports = self._here.take()
        for report in reports:
            for note in report.notes:
                if note.startswith(NOT_SANITISED):  # nobody may take silence for a proof
                    item.warn(SanitizeWarning(printable(f"{report.kernel} {note}")))
        counts = [(report, counts_of_run([report], baseline=self._baseline)) for report in reports]
        bad = [report for report, one in counts if one.answer is Answer.NO]
        open_ = [report for report, one in counts if one.answer is Answer.UNDECIDED]
        self.findings += sum(one.findings for _, one in counts)
        self.known += sum(one.known for _, one in counts)
        self.undecided += len(open_)
        bad += open_ if self._strict else []
        if not bad:
            return ""
        from kerncap.report import sanitize_text

        # Without the last line: the test has its own result.
        text = sanitize_text.render(bad, baseline=self._baseline).rsplit("\n", 1)[0]
        return printable(f"kerncap sanitize:\n{text}")
