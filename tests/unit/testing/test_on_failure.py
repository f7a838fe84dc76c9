"""`pytest --kerncap-on-failure`: which launch of a failed test is to blame, and what is said of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerncap.errors import KerncapError
from kerncap.testing.on_failure import blamed, rerun
from kerncap.testing.on_failure.notes import FailedTest, Notes, OfAllTests, OfOneTest, Tensor
from kerncap.testing.on_failure.rerun import Left, Pytest
from kerncap.testing.on_failure.summary import markdown


class Launch:
    """As a reproducer is read: 8 bytes at 0x1000, of which one may change."""

    def __init__(self, changed: int | None) -> None:
        self._changed = changed
        self.manifest = SimpleNamespace(regions=[SimpleNamespace(base=0x1000, size=8)])

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self, state: str, region: int, offset: int, size: int) -> bytes:
        whole = bytearray(8)
        if state == "post" and self._changed is not None:
            whole[self._changed] = 1
        return bytes(whole[offset : offset + size])


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([Tensor("y", 0x1000, 4)], {"second": ["y"]}),  # the last that wrote it, though not the last of all
        ([Tensor("y", 0x1000, 4), Tensor("z", 0x1004, 4)], {"second": ["y"], "third": ["z"]}),
        ([Tensor("y", 0x1000, 4), Tensor("z", 0x1004, 4, True)], {"third": ["z"]}),  # the assertion names it
        ([Tensor("y", 0x1000, 4), Tensor("elsewhere", 0x2000, 4, True)], {"second": ["y"]}),
        ([Tensor("behind", 0x0FF0, 16)], {}),
        ([], {}),
    ],
)
def test_the_last_launch_that_wrote_a_tensor(
    monkeypatch: pytest.MonkeyPatch, tensors: list[Tensor], expected: dict[str, list[str]]
) -> None:
    launches = {"first": Launch(0), "second": Launch(2), "third": Launch(5), "fourth": Launch(None)}
    monkeypatch.setattr(blamed, "Reproducer", SimpleNamespace(open=lambda path: launches[str(path)]))
    found = blamed.writers([Path(name) for name in launches], tensors)
    assert found == {Path(name): names for name, names in expected.items()}


def report(text: str, test: str = "t.py::test", failed: bool = True) -> Any:
    return SimpleNamespace(nodeid=test, failed=failed, longreprtext=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("E  assert 1 == 2", FailedTest("t.py::test", "failed")),
        (
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            FailedTest("t.py::test", "fault"),
        ),
        ("torch.AcceleratorError: HIP error: unspecified launch failure", FailedTest("t.py::test", "fault")),
        ("AssertionError: (<CUresult.CUDA_ERROR_ILLEGAL_ADDRESS: 700>,)", FailedTest("t.py::test", "fault")),
        ("RuntimeError: CUDA error: out of memory", FailedTest("t.py::test", "failed")),
        ("AssertionError: (<CUresult.CUDA_ERROR_OUT_OF_MEMORY: 2>,)", FailedTest("t.py::test", "failed")),
        ("worker 'gw1' crashed while running 't.py::test'", FailedTest("t.py::test", "fault")),
        (
            "kerncap sanitize:\nshift[2, 1, 1] from t.py:9: 1 finding\n  error[oob]: x\n"
            "add[1] from t.py:8: 2 findings",
            FailedTest("t.py::test", "finding", ("shift", "add")),
        ),
        ("E  said 'kerncap sanitize:\n'", FailedTest("t.py::test", "failed")),
    ],
)
def test_how_a_test_failed(tmp_path: Path, text: str, expected: FailedTest) -> None:
    notes = Notes(tmp_path)
    plugin = OfAllTests(notes)
    plugin.pytest_runtest_logreport(report("fine", failed=False))
    plugin.pytest_runtest_logreport(report(text))
    plugin.pytest_runtest_logreport(report("its teardown failed, too"))
    assert notes.failed() == [expected]


def test_one_test_runs_again_and_notes_its_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    storage = SimpleNamespace(nbytes=lambda: 8, data_ptr=lambda: 0x1000)

    class Stored:
        def untyped_storage(self) -> Any:
            return storage

    class Missing:
        def untyped_storage(self) -> Any:
            raise NotImplementedError

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=(Stored, Missing)))
    notes = Notes(tmp_path)
    notes.choose("b")
    plugin = OfOneTest(notes, "b")
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in "abc"]
    plugin.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["b"]

    def failing(outputs: Any, other: Any) -> None:
        assert outputs is None

    with pytest.raises(AssertionError) as excinfo:
        failing({"y": Stored()}, Missing())
    call: Any = SimpleNamespace(excinfo=excinfo)
    plugin.pytest_exception_interact(request.node, call)
    assert notes.tensors() == [Tensor("outputs['y']", 0x1000, 8, True)]


def run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: FailedTest, *documents: Any) -> Any:
    """The words of each capture, and what is left."""
    asked: list[list[str]] = []
    answers = iter(documents)

    def run_text(words: list[str], **_: Any) -> Any:
        asked.append(words[words.index("--no-self-check") + 1 : words.index("--")])
        answer = next(answers)
        if isinstance(answer, dict):
            for path in answer["captured"]:
                Path(path).mkdir(parents=True, exist_ok=True)
            answer = json.dumps(answer)
        return SimpleNamespace(stdout=answer, stderr="kerncap: it was away\n", returncode=3)

    monkeypatch.setattr(rerun.child, "run_text", run_text)
    left = Pytest(["pytest"], tmp_path, {}, Notes(tmp_path)).again(failed, tmp_path / "out")
    return asked, left


def document(*paths: Path, launches: int = 1, status: int = 1, reason: str | None = None) -> dict[str, Any]:
    kernels = [{"name": "scale", "launches": launches}, {"name": "at::fill", "launches": 9}]
    reproducers = [{"kernel": "scale", "path": str(path)} for path in paths]
    return {
        "captured": list(map(str, paths)), "reproducers": reproducers, "kernels": kernels,
        "target_status": status, "reason": reason,
    }  # fmt: skip


def test_which_launches_are_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "out/t/scale-1", tmp_path / "out/t/scale-2"
    failed = FailedTest("t.py::t", "failed")
    asked, left = run_again(tmp_path, monkeypatch, failed, document(one))
    assert asked == [[]] and left.reproducers == {one: "one of its last launches"}

    # A kernel that is launched more than once: its last launches, and the first one is not kept.
    asked, left = run_again(tmp_path, monkeypatch, failed, document(one, launches=3), document(two))
    assert asked == [[], ["--last", "16", "-k", "^(?:scale)$"]]
    assert [*left.reproducers] == [two] and not one.exists()

    asked, left = run_again(tmp_path, monkeypatch, failed, document(one, status=0))
    assert left == Left("t.py::t", {}, rerun.PASSED) and not one.exists()
    asked, left = run_again(tmp_path, monkeypatch, FailedTest("t.py::t", "fault"), document(one, status=139))
    assert asked == [["--on-fault"]] and left.reproducers == {one: "it faulted"}
    asked, left = run_again(
        tmp_path, monkeypatch, FailedTest("t.py::t", "fault"), document(reason="no launch")
    )
    assert left.reason == "no launch"
    found = FailedTest("t.py::t", "finding", ("scale", "a.b"))
    asked, left = run_again(tmp_path, monkeypatch, found, document(one, status=0))
    assert asked == [["-k", r"^(?:a\.b|scale)$", "--per-config"]] and [*left.reproducers] == [one]
    _, left = run_again(tmp_path, monkeypatch, failed, "no document")
    assert left == Left("t.py::t", {}, "it was away")


def test_the_comment_shows_names_as_code(tmp_path: Path) -> None:
    path = tmp_path / "t-1" / "scale-1"
    left = [
        Left("t.py::test[@everyone|`<img>]", {path: "it wrote y"}),
        Left("t.py::other\n# title", {}, "nothing was captured"),
    ]
    text = markdown(left, 4, tmp_path)
    assert "| `t.py::test[@everyone\\|'<img>]` | `t-1/scale-1` | `it wrote y` |" in text
    assert "- `t.py::other # title`: `nothing was captured`" in text
    assert "1 of 4 failed tests" in text and "2 more failed and were not run again" in text
    assert "inspect t-1/scale-1" in text


def test_an_error_of_the_format_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: Any) -> Any:
        raise KerncapError("index: damaged")

    monkeypatch.setattr(rerun.blamed, "writers", damaged)
    _, left = run_again(
        tmp_path, monkeypatch, FailedTest("t", "failed"), document(tmp_path / "out/t/scale-1")
    )
    assert left == Left("t", {}, "index: damaged")
