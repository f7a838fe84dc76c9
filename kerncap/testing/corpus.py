"""``pytest --kerncap DIR``: each reproducer below DIR, a folder or a packed .zip, is a test.

A test replays the captured launch and judges it as ``kerncap verify`` does; if a candidate lies beside the
reproducer (``NAME-1a2b3c4d.candidate.py``), or ``--kerncap-candidate KERNEL=FILE`` names one, another test
judges that. What is missing on this machine skips a test, with its name. So does an undecided verdict, with
its reason, unless ``--kerncap-strict`` makes it a failure.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerncap import search_path, unexpected_error
from kerncap.printable import printable

if TYPE_CHECKING:
    from kerncap.replay.pool import Pool

NAME = "kerncap-corpus"
STRICT = "--kerncap-strict"
_MANIFEST, _MANIFEST_DIGEST = "manifest.json", "manifest.sha256"
_CANDIDATE = ".candidate"


def add_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--kerncap", action="append", default=[], metavar="DIR",
        help="make a test of each reproducer below DIR (or of one reproducer, or one packed .zip)",
    )  # fmt: skip
    group.addoption(
        "--kerncap-stages", metavar="NAMES",
        help="stages that a reproducer must pass, as for kerncap verify --stages (default: smoke,oracle)",
    )  # fmt: skip
    group.addoption(
        "--kerncap-candidate", action="append", default=[], metavar="KERNEL=FILE",
        help="verify FILE on every reproducer of KERNEL too; such a file may also be next to a reproducer, "
        "with its name, .candidate and a suffix",
    )  # fmt: skip
    group.addoption(
        "--kerncap-trust", action="store_true",
        help="allow reproducers that were not captured here to run, and remember them; read them first",
    )  # fmt: skip
    group.addoption(
        STRICT, action="store_true",
        help="fail a test if the verdict of --kerncap or --kerncap-sanitize is undecided",
    )  # fmt: skip


def configure(config: pytest.Config) -> None:
    given = config.getoption("--kerncap")
    if not given:
        return
    from kerncap.replay.pool import Pool

    roots = [Path(config.invocation_params.dir, path).resolve() for path in given]
    for path, root in zip(given, roots, strict=True):
        if not os.path.exists(root):
            raise pytest.UsageError(f"--kerncap {path}: no such file or folder")
        if not os.access(root, os.R_OK | (os.X_OK if root.is_dir() else 0)):
            denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            said = unexpected_error.about(root, denied, "can't be read")
            raise pytest.UsageError(f"--kerncap {said}")
        if _is_inside(root.parent):
            raise pytest.UsageError(
                f"--kerncap {path}: it is inside a reproducer; name that, or one above it"
            )
    corpus = Corpus(
        roots,
        _stages(config),
        _candidates(config),
        bool(config.getoption("--kerncap-trust")),
        bool(config.getoption(STRICT)),
        Pool(keep=2),
    )
    config.add_cleanup(corpus.pool.close)
    config.pluginmanager.register(corpus, NAME)
    # Alone, the option is all that is run; beside other arguments it comes to them.
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []
    known = {
        Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args
    }
    config.args += [
        str(root) for root in roots if not any(each == root or root in each.parents for each in known)
    ]


def _stages(config: pytest.Config) -> tuple[str, ...]:
    from kerncap.api.verify import parse_stages
    from kerncap.errors import UsageError

    try:
        return parse_stages(config.getoption("--kerncap-stages"))
    except UsageError as error:
        raise pytest.UsageError(f"--kerncap-stages: {error}") from error


def _candidates(config: pytest.Config) -> list[tuple[str, Path]]:
    found = []
    for text in config.getoption("--kerncap-candidate") or ():
        kernel, _, name = text.partition("=")
        path = Path(config.invocation_params.dir, name)
        if not kernel or not name or not path.is_file():
            raise pytest.UsageError(
                f"--kerncap-candidate {text}: expected KERNEL=FILE, and there is no such file"
            )
        found.append((kernel, path.resolve()))
    return found


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Whether it is a reproducer that is not below a folder of ``--kerncap``.

    Its sources are a stranger's, and one captured of a test has a file of the same name in it.
    """
    corpus = config.pluginmanager.get_plugin(NAME)
    return _is_manifest(path / _MANIFEST) and not (isinstance(corpus, Corpus) and corpus.is_below(path))


def refuse_conftests(config: pytest.Config) -> None:
    """Before pytest imports any: a reproducer's ``conftest.py`` is a stranger's.

    pytest takes those of its arguments and of the working folder, and of folders in these that are called
    ``test*``. Raises pytest.UsageError for the first that lies inside a reproducer.
    """
    given = config.known_args_namespace
    if not getattr(given, "kerncap", None):
        return
    here = config.invocation_params.dir
    named = [Path(here, str(argument).partition("::")[0]) for argument in given.file_or_dir]
    anchors = [here, *filter(Path.exists, named)]
    anchors += [each for anchor in anchors if anchor.is_dir() for each in anchor.glob("test*")]
    for anchor in anchors:
        for folder in (anchor, *anchor.parents):
            if not _is_inside(folder):
                break
            if (folder / "conftest.py").exists():
                raise pytest.UsageError(
                    f"{folder / 'conftest.py'}: a file inside a reproducer, which pytest would import; "
                    "remove it, or run pytest from another folder"
                )


@dataclass(frozen=True, eq=False)  # hashed by pytest, as what it is
class Corpus:
    """The plugin that collects; registered with the option only."""

    roots: Sequence[Path]
    stages: tuple[str, ...]
    candidates: Sequence[tuple[str, Path]]
    trust: bool
    strict: bool
    pool: Pool  # of all tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        # The manifest stands for its folder: pytest selects by file alone (`DIR/manifest.json::verify`).
        if self.is_below(file_path) and (_is_manifest(file_path) or _is_packed(file_path)):
            return ReproducerFile.from_parent(parent, path=file_path, **_named(file_path))
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if self.is_below(path) and _is_inside(path):
            return ReproducerFolder.from_parent(parent, path=path, **_named(path))
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Of a reproducer nothing but its manifest is looked at, least of all its sources."""
        folder = collection_path.parent
        if collection_path.name != _MANIFEST and self.is_below(folder):
            return _is_inside(folder) or None
        return None

    def pytest_report_header(self) -> str:
        return printable(f"kerncap: {', '.join(map(str, self.roots))}; stages {', '.join(self.stages)}")

    def candidates_of(self, path: Path) -> list[Path]:
        """The candidates beside a reproducer, then those that an option names for its kernel."""
        name = path.name.removesuffix(".zip")
        beside = [each for each in sorted(path.parent.glob("*")) if each.name.startswith(name + _CANDIDATE)]
        kernel = name.rpartition("-")[0] or name
        return [
            *filter(Path.is_file, beside),
            *(file for wanted, file in self.candidates if wanted == kernel),
        ]

    def is_below(self, path: Path) -> bool:
        return any(path == root or root in path.parents for root in self.roots)


def _named(path: Path) -> dict[str, Any]:
    """pytest prints the name as it is: one that steers a terminal is another one here."""
    name = printable(str(path))
    return {} if name == str(path) else {"nodeid": name}


def _is_inside(folder: Path) -> bool:
    """Whether a folder is a reproducer, a damaged one too, or lies in one."""
    if search_path.inside_reproducer(str(folder)):
        return True
    return any(_is_manifest(each / _MANIFEST) for each in (folder, *folder.parents))


def _is_manifest(path: Path) -> bool:
    return path.name == _MANIFEST and path.is_file() and path.with_name(_MANIFEST_DIGEST).is_file()


def _is_packed(path: Path) -> bool:
    """Whether an archive's directory lists a manifest; what it is worth is found out by unpacking it."""
    if path.suffix != ".zip":
        return False
    from kerncap.format.archive import is_packed

    return is_packed(path)


def _items(collector: pytest.Collector, path: Path) -> Iterator[pytest.Item]:
    corpus = collector.config.pluginmanager.get_plugin(NAME)
    assert isinstance(corpus, Corpus)
    yield ReproducerTest.from_parent(collector, name="verify", reproducer=path, candidate=None)
    for file in corpus.candidates_of(path):
        yield ReproducerTest.from_parent(
            collector, name=f"candidate[{printable(file.name)}]", reproducer=path, candidate=file
        )


class ReproducerFolder(pytest.File):
    """A reproducer, or a folder in one; no `pytest.Directory`: that would import its ``conftest.py``."""

    def collect(self) -> Iterator[pytest.Collector]:
        manifest = self.path / _MANIFEST
        if manifest.is_file() and not _is_inside(self.path.parent):
            yield ReproducerFile.from_parent(self, path=manifest, **_named(manifest))


class ReproducerFile(pytest.File):
    """A reproducer's manifest, or one that `kerncap pack` made."""

    def collect(self) -> Iterator[pytest.Item]:
        yield from _items(self, self.path.parent if self.path.name == _MANIFEST else self.path)


class NotReproduced(Exception):
    """The verdict in words."""


class ReproducerTest(pytest.Item):
    """One verdict: on the captured kernel, or on a candidate."""

    def __init__(self, *, reproducer: Path, candidate: Path | None, **given: Any) -> None:
        super().__init__(**given)
        self.reproducer = reproducer
        self.candidate = candidate

    def runtest(self) -> None:
        from kerncap import unexpected_error
        from kerncap.answer import Answer
        from kerncap.api.verify import VerifyOptions, verify
        from kerncap.errors import BackendUnavailable
        from kerncap.report.verdict_text import render

        corpus = self.config.pluginmanager.get_plugin(NAME)
        assert isinstance(corpus, Corpus)
        try:
            with _folder(self.reproducer) as folder:
                options = VerifyOptions(candidate=self.candidate, trust=corpus.trust, stages=corpus.stages)
                result = verify(folder, options, corpus.pool)
        except BackendUnavailable as error:
            raise pytest.skip.Exception(printable(str(error)), _use_item_location=True) from error
        except Exception as error:
            text = str(unexpected_error.explained(error)).replace("with --trust", "with --kerncap-trust")
            raise NotReproduced(text) from error
        if result.answer is Answer.UNDECIDED and not corpus.strict:
            reason = printable(f"undecided: {result.verdict.summary}")
            raise pytest.skip.Exception(reason, _use_item_location=True)
        if not result.passed:
            raise NotReproduced(render(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, NotReproduced):
            words = ["kerncap", "verify", str(self.reproducer)]
            if self.candidate is not None:
                words += ["--candidate", str(self.candidate)]
            return printable(f"{excinfo.value}\n\nagain: {shlex.join(words)}")
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return Path(printable(str(self.reproducer))), 0, printable(f"{self.reproducer.name}: {self.name}")


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """The reproducer as a folder; a packed one for as long as it is looked at."""
    if path.is_dir():
        yield path
        return
    from kerncap import scratch
    from kerncap.api.pack import unpack_file

    with scratch.temporary("corpus") as place:
        yield unpack_file(path, place)
