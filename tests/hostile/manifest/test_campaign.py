"""The mutation campaign: each key by eight wrong values; with KERNCAP_FUZZ_MANIFEST=1 by all there are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.hostile.manifest.campaign import GOLDENS, WRONG, cases, filled_up
from tests.unit.format.damage import write_manifest

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "kerncap/format/manifest.schema.json"
VALUES = len(WRONG) if os.environ.get("KERNCAP_FUZZ_MANIFEST") else 8
PARTS = 16
COMMANDS = 22


def held(folder: Path, values: int, first: int, parts: int) -> None:
    words = [str(values), str(first), str(parts), str(folder / "work")]
    command = [sys.executable, "-m", "tests.hostile.manifest.campaign", *words]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    print(found["counts"])
    assert not found["wrong"], "\n".join(found["wrong"][:20])
    assert found["counts"]["refused"] and found["counts"]["runs"] == found["counts"]["cases"] * COMMANDS


def test_a_few_of_them(tmp_path: Path) -> None:
    held(tmp_path, 4, 0, 300)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_command_refuses_in_one_line_or_does_its_work(tmp_path: Path, part: int) -> None:
    held(tmp_path, VALUES, part, PARTS)


def test_each_key_has_wrong_values_of_many_kinds() -> None:
    found: dict[object, int] = {}
    for golden, steps, _ in cases(8):
        found[golden, steps] = found.get((golden, steps), 0) + 1
    assert len(found) > 450 and set(found.values()) == {8}
    assert {which for _, _, which in cases(8)} == set(range(len(WRONG)))


def test_every_key_of_the_schema_is_among_them() -> None:
    tried = {step for _, steps, _ in cases() for step in steps}
    assert set(properties(json.loads(SCHEMA.read_text()))) <= tried


def properties(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        known = node.get("properties")
        yield from known if isinstance(known, dict) else ()
        node = list(node.values())
    for each in node if isinstance(node, list) else ():
        yield from properties(each)


@pytest.mark.parametrize("number", range(len(GOLDENS)))
def test_what_is_changed_can_be_read_before(tmp_path: Path, number: int) -> None:
    folder = Path(shutil.copytree(GOLDENS[number], tmp_path / "repro"))
    write_manifest(folder, json.dumps(filled_up()[number]).encode())
    with Reproducer.open(folder) as reproducer:
        reproducer.verify()
