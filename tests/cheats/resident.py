"""One captured launch in one engine, and the candidates of this folder that are judged in it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kerncap.api.replay import opened
from kerncap.api.verify import VerifyOptions, VerifyResult
from kerncap.api.verify.stage_order import judged
from kerncap.api.verify.verify_result import STAGES, Case
from kerncap.replay import trust
from kerncap.replay.engine import CANDIDATE
from tests.integration.conftest import CommandLine

from .edited import EDITED, HERE

_HEADER = re.compile(r"^(Source|Host|Device|Hostile): (.+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Cheat:
    """What a candidate's docstring says of it: where it was seen, and what has to be said of it."""

    name: str
    source: str
    host: str
    device: str
    hostile: str  # on the device, where no Python of it runs in the process that judges it
    text: str

    def stages(self, expected: str) -> tuple[str, ...]:
        """The stages that are asked to say it."""
        stage, colon, _ = expected.partition(": ")
        return ("oracle", stage) if colon and stage in STAGES else ("oracle",)

    @property
    def compiles(self) -> bool:
        """Whether there is such a thing on a device."""
        return not self.device.startswith("none: ")


def _cheats() -> dict[str, Cheat]:
    """All candidates, by name: the edited kernels, and the files of their own."""
    found = {
        name: Cheat(name, one.source, one.host, one.device or one.host, one.hostile, one.text)
        for name, one in EDITED.items()
    }
    for path in (HERE / "candidates").glob("*.py"):
        text = path.read_text()
        said = dict(_HEADER.findall(text.split('"""')[1]))
        of_device = said["Device"], said.get("Hostile", "")
        found[path.stem] = Cheat(path.stem, said["Source"], said["Host"], *of_device, text)
    return {name: found[name] for name in sorted(found)}


CHEATS = _cheats()


class Resident:
    """One launch in one engine, in which all candidates are judged."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def cheat(self, name: str, stages: tuple[str, ...] = ("oracle",)) -> VerifyResult:
        return self._judge(name, CHEATS[name].text, stages)

    def honest(self, name: str, stages: tuple[str, ...] = ("oracle",)) -> VerifyResult:
        return self._judge(name, (HERE / "honest" / f"{name}.py").read_text(), stages)

    def _judge(self, name: str, text: str, stages: tuple[str, ...]) -> VerifyResult:
        # What a candidate keeps beside itself is its own affair, and no file of the repository.
        file = self.case.folder / f"{name}.py"
        file.write_text(text)
        return self.judge_file(file, stages)

    def judge_file(self, file: Path, stages: tuple[str, ...] = ("oracle",)) -> VerifyResult:
        trust.agree(self.case.reproducer.manifest_sha256)  # in this test, too
        self.case.options = dataclasses.replace(self.case.options, candidate=file)
        self.case.verdict, self.case.judged_by = None, ""
        return judged(self.case, stages)


@contextmanager
def reopened(first: Resident, folder: Path, options: VerifyOptions) -> Iterator[Resident]:
    """The launch of another resident in an engine with other options."""
    with opened(first.case.reproducer.path, options) as (reproducer, engine, _):
        yield Resident(Case(reproducer, engine, CANDIDATE, options, folder))


@contextmanager
def resident(
    kerncap: CommandLine, folder: Path, options: VerifyOptions, name: str = "rms_rows"
) -> Iterator[Resident]:
    """A kernel of this folder, captured, in an engine."""
    [path] = kerncap.capture("-k", name, "--no-self-check", target=HERE / f"{name}.py")
    with opened(path, options) as (reproducer, engine, _):
        yield Resident(Case(reproducer, engine, CANDIDATE, options, folder))
