"""The reader in TypeScript against the one in Python: what one of them refuses, the other refuses too."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kerncap.errors import KerncapError
from kerncap.format.archive import unpack
from tests.fuzz.archives import MAX_SIZE, build
from tests.fuzz.mutate import GOLDENS, mutate
from tests.hostile.manifest import campaign
from tests.unit.format.damage import write_manifest
from tests.viewer.conftest import GOLDEN, by_hand, opened

pytestmark = pytest.mark.long

ARCHIVES, MUTANTS = 120, 120
EACH_KEY = 5  # of the manifest's keys, every fifth
# SHA-256 says more than CRC-32, which this reader leaves alone.
UNSEEN = "Bad CRC-32"


def answers(node: str, folder: Path) -> dict[str, str | None]:
    """What the reader in TypeScript says of each archive and folder there: None, or why it refuses."""
    script = Path(__file__).with_name("read_all.ts")
    run = subprocess.run([node, str(script), str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, str | None] = json.loads(run.stdout)
    return found


def test_every_golden_folder_is_read(node: str, tmp_path: Path) -> None:
    names = [path.parent.name for path in GOLDEN.glob("*/manifest.json")]
    for name in names:
        shutil.copytree(GOLDEN / name, tmp_path / name)
    assert answers(node, tmp_path) == dict.fromkeys(names)


def test_hostile_files_are_refused_as_python_refuses_them(node: str, tmp_path: Path) -> None:
    given, scratch = tmp_path / "given", tmp_path / "scratch"
    given.mkdir()
    _archives(given)
    _mutants(given, scratch)
    _keys(given, scratch)
    said = {path.name: _python(path, scratch) for path in sorted(given.iterdir())}
    found = answers(node, given)
    assert sum(each is not None for each in said.values()) > 100
    wrong = {
        name: (said[name], found[name])
        for name in said
        if (said[name] is None) != (found[name] is None) and UNSEEN not in str(said[name])
    }
    assert wrong == {}
    for refused in filter(None, found.values()):
        assert not refused.startswith("not a FormatError") and len(refused.splitlines()) == 1, refused


def _archives(given: Path) -> None:
    for seed in range(ARCHIVES):
        (given / f"archive-{seed}.zip").write_bytes(build(random.Random(seed)))


def _mutants(given: Path, scratch: Path) -> None:
    for seed in range(MUTANTS):
        choose = random.Random(f"viewer {seed}")
        folder = _copy(choose.choice(GOLDENS), scratch)
        mutate(folder, choose)
        by_hand(folder, given / f"mutant-{seed}.zip")


def _keys(given: Path, scratch: Path) -> None:
    documents = campaign.filled_up()
    for number, (golden, steps, which) in enumerate([*campaign.cases(1)][::EACH_KEY]):
        folder = _copy(campaign.GOLDENS[golden], scratch)
        document = campaign.changed(documents[golden], steps, campaign.WRONG[which])
        write_manifest(folder, json.dumps(document).encode())
        by_hand(folder, given / f"key-{number}-{which}.zip")


def _copy(golden: Path, scratch: Path) -> Path:
    shutil.rmtree(scratch, ignore_errors=True)
    return Path(shutil.copytree(golden, scratch))


def _python(archive: Path, scratch: Path) -> str | None:
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        with opened(unpack(archive, scratch, MAX_SIZE)) as one:
            one.verify()
    except KerncapError as error:
        return str(error)
    return None
