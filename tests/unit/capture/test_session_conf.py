"""session.conf: what a native shim reads, byte by byte."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture import session_conf
from kerncap.capture.options import CaptureOptions
from kerncap.capture.where import parse_where


def decoded(text: bytes) -> dict[str, str]:
    lines = text.decode().splitlines()
    return {
        key: unquote_to_bytes(value).decode() for key, _, value in (line.partition("=") for line in lines)
    }


def test_every_option_stands_there() -> None:
    options = CaptureOptions(
        ("app",),
        kernel="add",
        launch=(2, 5),
        where=parse_where("grid[0] > 4"),
        memory="all",
        max_size=1 << 20,
        when="nonfinite",
        stop=True,
        fault_timeout_s=1.5,
    )
    assert options.for_shim("t0", "/run/a b/socket") == (
        b"version=1\n"
        b"token=t0\n"
        b"socket=/run/a b/socket\n"
        b"backends=cuda,hip,triton\n"
        b"launch_first=2\n"
        b"launch_last=5\n"
        b"per_config=0\n"
        b"default=0\n"
        b"where=n:grid item:0 c:i:4 >\n"
        b"limit_kernels=10\n"
        b"limit_bytes=4294967296\n"
        b"max_size=1048576\n"
        b"on_fault=0\n"
        b"fault_timeout_ns=1500000000\n"
        b"when=nonfinite\n"
        b"stop=1\n"
        b"no_values=0\n"
        b"list_only=0\n"
        b"drain_timeout_ns=5000000000\n"
        b"chunk_bytes=262144\n"
        b"memory=all\n"
    )


@pytest.mark.parametrize("backend", ["auto", "cuda", "hip", "triton"])
def test_backends_are_named(backend: str) -> None:
    options = CaptureOptions(("app",), backend=backend)  # type: ignore[arg-type]
    expected = {"auto": "cuda,hip,triton"}.get(backend, backend)
    conf = decoded(options.for_shim("t", "/s"))
    assert conf["backends"] == expected and conf["default"] == "1" and "launch_first" not in conf


def test_what_would_break_a_line_is_escaped() -> None:
    assert session_conf.encode({"socket": "/a%b\nc\td\x7f"}) == b"socket=/a%25b%0Ac%09d%7F\n"
    undecodable = os.fsdecode(b"/\xff")
    assert session_conf.encode({"socket": undecodable}) == b"socket=/\xff\n"


@given(st.dictionaries(st.text("abc_", min_size=1), st.text(st.characters(codec="utf-8"))))
def test_any_text_comes_back(options: dict[str, str]) -> None:
    encoded = session_conf.encode(options)
    pairs = [line.partition(b"=") for line in encoded.split(b"\n") if line]
    assert {key.decode(): unquote_to_bytes(value).decode() for key, _, value in pairs} == options


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("shared > 0", "n:shared c:i:0 >"),
        (
            "not grid[1] == 1 or block[0] in (32, 64)",
            "n:grid item:1 c:i:1 == not n:block item:0 c:i:32 c:i:64 list:2 in or",
        ),
        ("name == 'a b%c'", "n:name c:s:a%20b%25c =="),
        ("0 < device <= -3", "c:i:0 n:device < n:device c:i:-3 <= and"),
        ("parameter_bytes * 2 + 1 >= 1.5", "n:parameter_bytes c:i:2 * c:i:1 + c:f:0x1.8000000000000p+0 >="),
        ("cluster == None", "n:cluster c:n: =="),
        ("True != x.ndim // 2 % 3 - 1", "c:i:1 n:x attr:ndim c:i:2 // c:i:3 % c:i:1 - !="),
        ("stream in ()", "n:stream list:0 in"),
    ],
)
def test_where_in_reverse_polish(text: str, tokens: str) -> None:
    assert session_conf.reverse_polish(parse_where(text)) == tokens


def test_a_session_has_it_for_its_owner_alone(tmp_path: Path) -> None:
    from kerncap.capture.session import Session

    session = Session.create(CaptureOptions(("app",), output=tmp_path), {})
    try:
        path = session.folder / "session.conf"
        conf = decoded(path.read_bytes())
        assert session.server is not None and conf["socket"] == session.server.path
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        session.close()
