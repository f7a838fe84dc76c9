"""`kerncap report` from outside: what it writes, refuses and says. Needs no browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from kerncap.api.report import report
from kerncap.errors import UsageError
from kerncap.format import schema
from tests.integration.conftest import CommandLine
from tests.integration.report.reproducers import Made, Tensor, ramp, write

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2


@pytest.fixture
def kerncap(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    manifest = {"command": ("python", "/home/alice/train.py"), "notes": (f"export TOKEN={SECRET}",)}
    return write(tmp_path, Made([Tensor("x", ramp(4, 4))], manifest=manifest))


def test_pages_do_not_have_what_is_private(kerncap: CommandLine, tmp_path: Path, private: Path) -> None:
    done = kerncap("report", private, "-o", "r.html", "--json")
    assert done.status == 0 and done.document["written"] is True
    assert {one["kind"] for one in done.document["findings"]} == {"user", "secret"}
    page = (kerncap.folder / "r.html").read_text()
    assert "alice" not in page and SECRET not in page + done.stderr + done.stdout
    assert "/home/USER/train.py" in page
    kept = report(private, tmp_path / "k.html", keep_private=["users", "secrets"]).path.read_text()
    assert "/home/alice/train.py" in kept and SECRET in kept


def test_results_are_searched_too(tmp_path: Path) -> None:
    folder = write(tmp_path, Made([Tensor("x", ramp(4, 4))]))
    result = tmp_path / "verify.json"
    result.write_text(json.dumps(
        {"result": "pass", "kernel": "scale", "judged_by": "it", "stages": [], "notes": ["/home/alice/x.py"]}
    ))  # fmt: skip
    page = report(folder, tmp_path / "r.html", results=[result]).path.read_text()
    assert "/home/USER/x.py" in page and "alice" not in page


def test_a_trace_shows_when_the_kernel_ran(tmp_path: Path) -> None:
    folder = write(tmp_path, Made([Tensor("x", ramp(4, 4))]))
    trace = tmp_path / "trace.json"
    track = {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "GPU 0, stream <b>"}}
    launch = {"ph": "X", "cat": "launch", "name": "k", "pid": 7, "tid": 1, "ts": 1.5, "dur": 2.0}
    events = [track, *({**launch, "args": {"kernel": name}} for name in ("scale", "private_kernel"))]
    trace.write_text(json.dumps({"traceEvents": events}))
    page = report(folder, tmp_path / "r.html", results=[trace]).path.read_text()
    assert "1 of 2 launches in 2" in page and page.count('<rect class="bar binding"') == 1
    assert "GPU 0, stream &lt;b&gt;" in page and "private_kernel" not in page
    text = report(folder, tmp_path / "r.md", results=[trace], as_markdown=True).path.read_text()
    assert "- `kerncap list`: `(1 of 2 launches in 2" in text
    trace.write_text(json.dumps({"traceEvents": events[::2]}))
    with pytest.raises(UsageError, match="has no launch of scale; give a trace of its program"):
        report(folder, tmp_path / "r.html", results=[trace])


def test_the_same_page_each_time(tmp_path: Path) -> None:
    folder = write(tmp_path, Made([Tensor("x", ramp(40, 40), ramp(40, 40) * 2)]))
    first, second = (report(folder, tmp_path / name).path.read_bytes() for name in ("a.html", "b.html"))
    assert first == second
    assert str(tmp_path).encode() not in first  # where it was made is nobody's business


def test_nothing_is_loaded_and_the_policy_is_that_of_the_page(tmp_path: Path) -> None:
    folder = write(tmp_path, Made([Tensor("x", ramp(4, 4))]))
    page = report(folder, tmp_path / "r.html").path.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    for tag in ("script", "style"):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(content) == 1
        digest = base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy[1]
    assert "default-src &#39;none&#39;" in policy[1]
    assert not re.findall(r"<(?:link|img|iframe|object|embed|base)\b", page)
    assert not re.findall(r"\b(?:src|href)=\"(?!#)", page)
    assert "@import" not in page and "url(" not in page and "innerHTML" not in page
    assert not re.findall(r"\sstyle=\"", page)  # the policy has none of these


def test_wrong_requests_end_in_one_line(kerncap: CommandLine, tmp_path: Path) -> None:
    folder = write(tmp_path, Made([Tensor("x", ramp(4, 4))]))
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"result": "pass", "kernel": "another", "judged_by": "it"}))
    page = tmp_path / "r.html"
    for path, output, results, words in (
        (folder, tmp_path / "kernel.py", [], "ends with .html"),
        (folder, page, [tmp_path / "none.json"], "No such file"),
        (folder, page, [tmp_path], "a folder; give a regular file"),
        (tmp_path / "nowhere", page, [], "no such reproducer"),
        (folder, tmp_path / "no" / "r.html", [], "No such file"),
    ):
        with pytest.raises(UsageError, match=words):
            report(path, output, results=results)
    done = kerncap("report", folder, "--with", other)
    assert done.status == 2
    *slow, said = done.stderr.splitlines()
    assert "about another; the reproducer holds scale" in said
    assert all("private things: " in line for line in slow)  # after a second of a busy machine
    (folder / "manifest.json").write_bytes(
        (folder / "manifest.json").read_bytes().replace(b"scale", b"scalf")
    )
    assert kerncap("report", folder).status == 3


def test_what_has_no_room_is_said(tmp_path: Path) -> None:
    tensors = [Tensor(f"x{number}", ramp(2, 2)) for number in range(60)]
    folder = write(tmp_path, Made(tensors, source=b"x = 1\n" * 30_000))
    made = report(folder, tmp_path / "r.html")
    assert "the values of 12 of 60 views" in made.left_out
    assert all(text in made.path.read_text() for text in made.left_out)


def test_a_bad_result_of_the_sanitizer_is_no_failure(tmp_path: Path) -> None:
    folder = write(tmp_path, Made([Tensor("x", ramp(4, 4))], code={"ttir": b"not TTIR"}))
    page = report(folder, tmp_path / "r.html").path.read_text()
    assert "the sanitizer could not judge it" in page


def test_memory_that_a_launch_never_had(tmp_path: Path) -> None:
    launch = schema.Launch(grid=(1, 1, 1), ordinal=0, mode="jit")
    folder = write(tmp_path, Made([], source=None, manifest={"launch": launch}))
    page = report(folder, tmp_path / "r.html").path.read_text()
    assert "The launch reaches no memory." in page
    assert "Neither source nor compiled code" in page


def test_values_that_were_left_out_are_not_shown_as_zeros(tmp_path: Path) -> None:
    closure = schema.Closure(
        mode="args", consistency="cooperative", included_bytes=0, left_out_bytes=64,
        left_out=(schema.ALL_CONTENTS,),
    )  # fmt: skip
    tensor = Tensor("x", np.zeros((4, 4), np.float32))
    page = report(write(tmp_path, Made([tensor], manifest={"closure": closure})), tmp_path / "r.html").path
    text = page.read_text()
    assert "The values were left out: captured with --no-values." in text and "contents left out" in text
    assert "data-view" not in text.partition("<main")[2].partition("<script")[0]
    assert "hold data" not in text


def test_usage_from_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one of"):
        report(write(tmp_path, Made([])), tmp_path / "r.html", keep_private=["everything"])
