"""A Triton program that is given secrets in every way, from its launch to the machine of whoever gets it."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path

from tests.hostile.privacy.planted import SECRETS, A, B, gone
from tests.integration.conftest import CommandLine

SAMPLE = Path(__file__).parents[3] / "samples" / "vector_add"


def test_a_capture_with_secrets_replays_without_them(tmp_path: Path) -> None:
    folder, kerncap = tmp_path, CommandLine(tmp_path)
    home = folder / "home" / "mallory" / "work"
    shutil.copytree(SAMPLE, home)
    run = home / "run.py"
    run.write_text(run.read_text() + f"\n# HF_TOKEN=hf_{A}{B}cd, by mallory\n")
    words = [
        word for _, text, _ in SECRETS[:9] for word in (text.split(" ") if text.startswith("-") else [text])
    ]
    named = {"PYTORCH_PASS": "hunter12pwz", "TRITON_PAT": B, "TORCH_WEBHOOK": f"https://hooks.example/{A}"}
    environment = {**named, "USER": "mallory", "TRITON_INTERPRET": "1"}
    taken = kerncap(
        "capture", "--no-self-check", "-o", "out", "-k", "add_kernel", "--", sys.executable, run, *words,
        env=environment,
    )  # fmt: skip
    assert taken.status == 0, taken.stderr
    [repro] = (folder / "out").glob("add_kernel-*")
    stored = json.loads((repro / "manifest.json").read_bytes())
    assert not named.keys() & stored["environment"].keys()
    secrets = [one for _, _, secret in SECRETS[:9] for one in gone(secret)] + [A.encode(), B.encode()]
    assert not [one for one in secrets if one in json.dumps(stored["command"]).encode()]

    done = kerncap("pack", repro, "-o", "a.zip", "--show-private", env=environment)
    assert done.status == 0, done.stderr
    with zipfile.ZipFile(folder / "a.zip") as archive:
        everything = b"".join(name.encode() + archive.read(name) for name in archive.namelist())
    assert not [one for one in [*secrets, b"mallory"] if one in everything]
    assert b"/home/USER/work/run.py" in everything and "mallory) -> USER" in done.stderr
    assert not [one for one in secrets if one.decode() in done.stderr]
    back = kerncap("unpack", "a.zip", "-o", "back")
    replayed = kerncap("replay", "--trust", back.stdout.strip(), env={"TRITON_INTERPRET": "1"})
    assert replayed.status == 0, replayed.stdout + replayed.stderr
