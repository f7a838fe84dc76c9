"""What is private is in no byte of an archive that `pack` writes, and the archive is a reproducer still."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import pytest

from kerncap.api.pack import pack, unpack_file
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.range_writer import write_range
from kerncap.format.schema import MissingLaunch
from tests.hostile.privacy.planted import SECRETS, gone, plant


def every_byte(archive: Path) -> bytes:
    """The archive and each of its members, unpacked."""
    raw = archive.read_bytes()
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        return raw + b"".join(name.encode() + b"\n" + opened.read(name) for name in opened.namelist())


# Each costs a tenth of a second: `make test` takes every fourth.
SLICED = [
    pytest.param(*one, id=one[0], marks=[] if number % 4 == 0 else [pytest.mark.long])
    for number, one in enumerate(SECRETS)
]


@pytest.mark.parametrize(("kind", "text", "secret"), SLICED)
def test_a_secret_is_nowhere(tmp_path: Path, kind: str, text: str, secret: tuple[str, ...]) -> None:
    planted = plant(tmp_path, text)
    assert secret[0].encode() in (planted / "README.md").read_bytes()
    packed = pack(planted, tmp_path / "a.zip")
    everything = every_byte(tmp_path / "a.zip")
    for one in gone(secret):
        assert one not in everything, one
    assert b"mallory" not in everything
    told = repr(packed.as_dict()["findings"])
    assert not any(one.decode() in told for one in gone(secret))
    with Reproducer.open(unpack_file(tmp_path / "a.zip", tmp_path / "out")) as reproducer:
        reproducer.verify()


def test_a_secret_of_one_launch_is_nowhere_in_a_packed_range(tmp_path: Path) -> None:
    launches = [plant(tmp_path / str(number), SECRETS[number][1]) for number in range(2)]
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Reproducer.open(each)) for each in launches]
        missing = [MissingLaunch(position=8, reason="/home/mallory/x was not there", kernel="k")]
        path = write_range(tmp_path / "range", [(3, opened[0]), (9, opened[1])], missing)
    packed = pack(path, tmp_path / "a.zip")
    assert any(SECRETS[1][2][0].encode() in each for each in _contents(path))
    everything = every_byte(tmp_path / "a.zip")
    for secret in (*SECRETS[0][2], *SECRETS[1][2], "mallory"):
        assert secret.encode() not in everything, secret
    assert len(packed.findings) == len(set(packed.findings))
    with LaunchRange.open(unpack_file(tmp_path / "a.zip", tmp_path / "out")) as unpacked:
        unpacked.verify()
        assert [launch.position for launch in unpacked.launches] == [3, 9]
        assert unpacked.manifest.notes[-1].startswith("Replaced before it was shared: ")


def _contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
