"""The server of the viewer: who may ask, for what, and that it gives the files byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kerncap.api import view
from kerncap.api.view import Viewer
from kerncap.errors import FormatError, KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.format.archive import write_archive

GOLDEN = Path(__file__).parents[2] / "golden"
PAGE = b"<!doctype html><meta content=\"connect-src 'none'; img-src data:\">"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


Ask = Callable[..., Answer]


@pytest.fixture(scope="module", autouse=True)
def built_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    page = tmp_path_factory.mktemp("page") / "page.html"
    page.write_bytes(PAGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "PAGE", page)
        yield page


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("packed") / "packed.zip"
    with Reproducer.open(GOLDEN / "v1.0") as reproducer:
        write_archive(reproducer, target)
    return target


@pytest.fixture(scope="module")
def viewer(built_page: Path, archive: Path) -> Iterator[Viewer]:
    result = archive.with_name("sanitized.txt")
    result.write_text("{}")
    with Viewer([GOLDEN / "v1.10", archive], [result]) as found:
        serving = threading.Thread(target=found.serve)
        serving.start()
        yield found
        found.stop()
        serving.join()


@pytest.fixture
def ask(viewer: Viewer) -> Ask:
    def get(target: str, host: str | None = None, method: str = "GET", **headers: str) -> Answer:
        with contextlib.closing(http.client.HTTPConnection(viewer.hosts[0])) as connection:
            sent = {"Host": host or viewer.hosts[0], "Connection": "close", **headers}
            connection.request(method, target, headers=sent)
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read())

    return get


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3].split("#")[0]


def test_the_page_may_ask_its_own_server_and_no_other(viewer: Viewer, ask: Ask) -> None:
    answer = ask(path_of(viewer.url))
    assert answer.status == 200 and answer.body == PAGE.replace(b"'none'", b"'self'")
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_files_are_given_by_ranges(viewer: Viewer, ask: Ask, archive: Path) -> None:
    base = path_of(viewer.url)
    folder, packed, result = json.loads(ask(f"{base}given.json").body)
    for entry in folder:
        name = entry["path"].removeprefix("v1.10/")
        expected = (GOLDEN / "v1.10" / name).read_bytes()
        assert entry["size"] == len(expected)
        answer = ask(f"{base}{entry['url']}", Range=f"bytes=0-{len(expected) - 1}")
        assert (answer.status, answer.body) == (206, expected), name
    assert [entry["path"] for entry in packed] == ["packed.zip"]
    assert [(entry["path"], entry["size"]) for entry in result] == [("sanitized.txt.json", 2)]
    answer = ask(f"{base}{packed[0]['url']}", Range="bytes=5-9")
    assert answer.body == archive.read_bytes()[5:10]
    assert answer.headers["Content-Range"] == f"bytes 5-9/{archive.stat().st_size}"


@pytest.mark.parametrize(
    "span", ["", "bytes=0-", "bytes=-5", "bytes=9-5", "bytes=0-99999999999", "bytes=0-1,2-3", "bytes=٣-٤"]
)
def test_any_other_range_is_refused(viewer: Viewer, ask: Ask, span: str) -> None:
    answer = ask(
        f"{path_of(viewer.url)}files/0", **({"Range": span.encode().decode("latin-1")} if span else {})
    )
    assert answer.status == 416 and answer.body == b""


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1", "127.0.0.1:1", "localhost"])
def test_another_host_is_refused(viewer: Viewer, ask: Ask, host: str) -> None:
    assert ask(path_of(viewer.url), host=host).status == 403


def test_without_the_token_there_is_nothing(viewer: Viewer, ask: Ask) -> None:
    base = path_of(viewer.url)
    for target in (
        "/",
        "/given.json",
        f"{base[:-2]}/",
        f"{base}files/9999",
        f"{base}files/../given.json",
        f"{base}files/-1",
        f"{base}x",
    ):
        assert ask(target).status == 404, target


def test_nothing_can_be_written(viewer: Viewer, ask: Ask) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert ask(path_of(viewer.url), method=method).status == 501


def test_the_browsers_address_works_once(viewer: Viewer, ask: Ask) -> None:
    ticket = path_of(viewer.url_for_browser)
    answer = ask(ticket)
    assert (answer.status, answer.headers["Location"]) == (303, f"{path_of(viewer.url)}#served")
    assert ask(ticket).status == 404


@pytest.mark.parametrize(
    ("name", "error"), [("missing", UsageError), ("plain.txt", FormatError), ("empty", FormatError)]
)
def test_what_is_no_reproducer_is_refused_in_one_line(
    tmp_path: Path, name: str, error: type[KerncapError]
) -> None:
    (tmp_path / "plain.txt").write_text("no zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(error) as caught:
        Viewer([tmp_path / name])
    assert len(str(caught.value).splitlines()) == 1 and name in str(caught.value)


def test_a_page_that_was_not_built_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(view, "PAGE", tmp_path / "page.html")
    with pytest.raises(KerncapError, match="make viewer"):
        Viewer([])
