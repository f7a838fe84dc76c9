"""``pytest --kerncap-sanitize``: a test that launches a Triton kernel with a finding fails.

Kernels on CPU tensors are carried out by kerncap: the tests need no GPU, and no ``TRITON_INTERPRET``.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerncap.printable import printable
from kerncap.testing.corpus import STRICT

if TYPE_CHECKING:
    from kerncap.api.sanitize.this_process import SanitizedHere
    from kerncap.sanitizer.findings import LaunchReport

ALL = "all"
NAME = "kerncap-sanitize"
SARIF_NAME = "kerncap-sarif"
BASELINE = "--kerncap-baseline"
SARIF = "--kerncap-sarif"
_SAID = "kerncap_sarif"  # by a worker of xdist to its controller


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
    group.addoption(
        SARIF,
        default=None,
        metavar="FILE",
        help="write the findings of --kerncap-sanitize as SARIF, which code hosts show at the lines",
    )


def configure(config: pytest.Config) -> None:
    checks = config.getoption("--kerncap-sanitize")
    sarif = config.getoption(SARIF)
    if sarif is not None and checks is None:
        raise pytest.UsageError(f"{SARIF} {sarif}: there is nothing to write without --kerncap-sanitize")
    if sarif is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SarifFile(Path(config.invocation_params.dir, sarif)), SARIF_NAME)
    if checks is not None:
        plugin = Sanitizing(
            checks,
            config.getoption("--kerncap-sanitize-bounds"),
            bool(config.getoption(STRICT)),
            config.getoption(BASELINE),
            sarif is not None,
        )
        config.pluginmanager.register(plugin, NAME)


class SarifFile:
    """Writes what this process, or the workers of xdist, found."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._documents: list[dict[str, Any]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        said = getattr(node, "workeroutput", {}).get(_SAID)  # a worker that crashed says nothing
        if said is not None:
            self._documents.append(json.loads(said))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        from kerncap import whole_files
        from kerncap.errors import KerncapError
        from kerncap.report import sanitize_sarif

        here = session.config.pluginmanager.get_plugin(NAME)
        assert isinstance(here, Sanitizing)
        documents = self._documents or [here.sarif()]
        try:
            whole_files.write(self._path, json.dumps(sanitize_sarif.joined(documents), indent=2) + "\n")
        except KerncapError as error:
            raise pytest.UsageError(f"{SARIF} {error}") from error


class Sanitizing:
    """Registered with the option only."""

    def __init__(self, checks: str, bounds: Any, strict: bool, baseline: str | None, keeps: bool) -> None:
        from kerncap.api.sanitize.this_process import SanitizedHere
        from kerncap.errors import KerncapError
        from kerncap.sanitizer.findings import CHECKS
        from kerncap.sanitizer.options import Options

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
        self._kept: list[LaunchReport] | None = [] if keeps else None
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

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)  # of a worker of xdist
        if self._kept is not None and output is not None:
            output[_SAID] = json.dumps(self.sarif())

    def sarif(self) -> dict[str, Any]:
        """What was found so far."""
        from kerncap.report import sanitize_sarif

        return sanitize_sarif.document(self._kept or (), baseline=self._baseline)

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
        if self._kept is not None:
            self._kept += reports
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
