"""`kerncap report --md`: a text for an issue that fits, and in which nothing of a stranger's is markup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerncap.api.inspect import inspect
from kerncap.cli import main
from kerncap.report.markdown import MOST_BYTES, render

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def test_one_reproducer_with_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    repro = GOLDEN / "v1.2"
    verdict = {"result": "fail", "kernel": "add_kernel", "judged_by": "oracle", "summary": "y: 3 differ"}
    kernel = inspect(repro)["manifest"]["kernel"]["name"]
    (tmp_path / "verify.json").write_text(json.dumps({**verdict, "kernel": kernel}))
    assert main(["report", str(repro), "--md", "--no-sanitize", "-o", "x.md"]) == 0
    text = (tmp_path / "x.md").read_text()
    assert (
        text.startswith(f"### `{kernel}` on ")
        and f"def {kernel}" in text
        and "kerncap unpack v1.2.zip" in text
    )
    assert "Not in this text" not in text
    assert main(["report", str(repro), "--md", "-o", "x.html"]) == 2
    assert "a name that ends with .md" in capsys.readouterr().err


def test_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    repro = GOLDEN / "v1.2"
    kernel = inspect(repro)["manifest"]["kernel"]["name"]
    timing = {"result": "pass", "kernel": kernel, "judged_by": "oracle", "summary": "```\n# big"}
    (tmp_path / "verify.json").write_text(json.dumps(timing))
    given = ["report", str(repro), "--task", "--no-sanitize"]
    assert main([*given, "--with", "verify.json"]) == 0
    text = (tmp_path / "v1.2.md").read_text()
    assert text.startswith(f"# Make `{kernel}` faster\n") and f"\ndef {kernel}(" in text
    assert "$ kerncap verify v1.2 --candidate candidate.py --stages all\n" in text
    result = text.partition("## Result of kerncap replay\n\n````json\n")[2].partition("\n````\n")[0]
    assert json.loads(result) == timing
    assert main([*given, "--md"]) == 2 and "--md, --task: one at a time" in capsys.readouterr().err


@pytest.mark.parametrize("letter", ["x", "é", "𝄞"])
def test_it_fits_whatever_is_in_it(letter: str) -> None:
    facts = inspect(GOLDEN / "v1.2")
    source = f"{letter * 90}\n" * 4000
    text, left_out = render(
        facts, {"verify": [{"result": "pass", "summary": letter * 9000}] * 500}, source, "r.zip"
    )
    assert MOST_BYTES // 2 < len(text.encode()) <= MOST_BYTES
    assert len(left_out) == 1 and left_out[0].startswith("source: ") and left_out[0] in text


def test_nothing_in_it_is_markup() -> None:
    facts = inspect(GOLDEN / "v1.2")
    facts["manifest"]["kernel"]["name"] = "k`@everyone <img>"
    source = "```\n</details>\n````\n@everyone"
    text, _ = render(
        facts, {"verify": [{"result": "fail", "summary": "`](http://x)\n# big"}]}, source, "r.zip"
    )
    assert text.startswith("### `k'@everyone <img>` on `")
    assert "- `kerncap verify`: `FAIL (']( http://x) # big)`".replace("( http", "(http") in text
    assert f"`````python\n{source}\n`````\n" in text
