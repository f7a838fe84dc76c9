"""The viewer: a page that reads reproducers in the browser, and its server, which only this machine reaches.

The page (kerncap/viewer) reads and checks a reproducer by itself; the server only gives it bytes of the
files that were named at the start.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kerncap
from kerncap.errors import BackendUnavailable, FormatError, KerncapError
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.archive import is_packed
from kerncap.format.folder import is_range
from kerncap.regular_file import open_regular

PAGE = Path(kerncap.__file__).with_name("viewer") / "page.html"
_PIECE = 1 << 20
_IDLE_S = 60.0  # after which a connection that asks for nothing is closed
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself has the rest
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Open = Callable[[], tuple[int, int]]  # a descriptor, which the caller closes, and the size in bytes


def page() -> bytes:
    """The page as one HTML file, for any place. Raises BackendUnavailable if it was not built."""
    try:
        return PAGE.read_bytes()
    except FileNotFoundError:
        reason = "its page was not built; run `make viewer` in the checkout, or install a released wheel"
        raise BackendUnavailable("the viewer", reason) from None


class Viewer:
    """Serves the page and ``paths`` (folders and .zip files) on 127.0.0.1, at a random port and address.

    ``results``: files of --json output that the page shows with them. Raises FormatError or UsageError for a
    path that is no reproducer. A context manager.
    """

    def __init__(self, paths: list[Path], results: Sequence[Path] = ()) -> None:
        self._page = page().replace(b"connect-src 'none'", b"connect-src 'self'", 1)
        self._closing = contextlib.ExitStack()
        self._token = secrets.token_urlsafe(24)
        self._ticket = secrets.token_urlsafe(24)
        self._files: list[Open] = []
        try:
            given = [*map(self._entries, paths), *map(self._result, results)]
            self._given = json.dumps(given).encode()
        except BaseException:
            self._closing.close()
            raise
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._closing.callback(self._server.server_close)
        self._end = "#served" if given else ""
        host = f"127.0.0.1:{self._server.server_port}"
        self.hosts = (host, host.replace("127.0.0.1", "localhost"))
        self.url = f"http://{host}/{self._token}/{self._end}"
        # Arguments of a browser's process are seen by all users: this address can be used once.
        self.url_for_browser = f"http://{host}/{self._ticket}"

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def serve(self) -> None:
        """Answer until an exception (a signal's) ends it."""
        self._server.serve_forever()

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._server.shutdown()

    def _entries(self, path: Path) -> list[dict[str, object]]:
        """The files of one reproducer as the page takes them; their paths begin with its name."""
        if path.is_dir():
            return self._folder(path)
        if not is_packed(path):
            open_regular(path).close()
            raise FormatError(
                path, 0, "not a packed reproducer; give a folder, or a file from `kerncap pack`"
            )
        return [self._file(path.name, path)]

    def _result(self, path: Path) -> list[dict[str, object]]:
        # By this ending the page knows it.
        return [self._file(path.name if path.suffix == ".json" else f"{path.name}.json", path)]

    def _file(self, name: str, path: Path) -> dict[str, object]:
        file = self._closing.enter_context(open_regular(path))
        return self._entry(name, lambda: (os.dup(file.fileno()), os.fstat(file.fileno()).st_size))

    def _folder(self, path: Path) -> list[dict[str, object]]:
        kind = LaunchRange if is_range(path) else Reproducer
        opened = self._closing.enter_context(kind.open(path))  # refuses what is not one, in one line
        name = path.resolve().name
        entries = []
        for folder, _, files in os.walk(path):
            for file in sorted(files):
                inside = str((Path(folder) / file).relative_to(path))
                entries.append(self._entry(f"{name}/{inside}", partial(opened.open_file, inside)))
        return entries

    def _entry(self, path: str, open_: Open) -> dict[str, object]:
        fd, size = open_()
        os.close(fd)
        self._files.append(open_)
        return {"path": path, "url": f"files/{len(self._files) - 1}", "size": size}

    def answer(self, target: str) -> tuple[str, bytes | Open] | str | None:
        """What is at ``target``: (type, content), the address that it is at now, or None."""
        _, first, *rest = target.split("/", 2)
        if not rest and self._ticket and hmac.compare_digest(first.encode(), self._ticket.encode()):
            self._ticket = ""
            return f"/{self._token}/{self._end}"
        if not rest or not hmac.compare_digest(first.encode(), self._token.encode()):
            return None
        name = rest[0]
        if name == "":
            return "text/html; charset=utf-8", self._page
        if name == "given.json":
            return "application/json", self._given
        folder, _, number = name.partition("/")
        if (
            folder == "files"
            and number.isascii()
            and number.isdecimal()
            and int(number[:9]) < len(self._files)
        ):
            return "application/octet-stream", self._files[int(number[:9])]
        return None


def _handler(viewer: Viewer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "kerncap", ""
        timeout = _IDLE_S

        def do_GET(self) -> None:
            # A name that a stranger's page resolves to this machine is another host than ours.
            if self.headers.get("Host") not in viewer.hosts:
                return self._send(HTTPStatus.FORBIDDEN)
            found = viewer.answer(self.path)
            if found is None:
                return self._send(HTTPStatus.NOT_FOUND)
            if isinstance(found, str):
                return self._send(HTTPStatus.SEE_OTHER, {"Location": found})
            kind, content = found
            if isinstance(content, bytes):
                return self._send(HTTPStatus.OK, {"Content-Type": kind}, content)
            try:
                fd, size = content()
            except (KerncapError, OSError):  # it is not there any more
                return self._send(HTTPStatus.NOT_FOUND)
            try:
                self._send_part(fd, size, kind)
            finally:
                os.close(fd)

        def _send_part(self, fd: int, size: int, kind: str) -> None:
            span = _span(self.headers.get("Range", ""), size)
            if span is None:
                return self._send(
                    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}"}
                )
            at, end = span
            headers = {"Content-Type": kind, "Content-Range": f"bytes {at}-{end - 1}/{size}"}
            self._send(HTTPStatus.PARTIAL_CONTENT, headers, length=end - at)
            while at < end and (piece := os.pread(fd, min(_PIECE, end - at), at)):
                self.wfile.write(piece)
                at += len(piece)
            self.close_connection = self.close_connection or at < end

        def _send(
            self,
            status: HTTPStatus,
            headers: dict[str, str] | None = None,
            body: bytes = b"",
            length: int | None = None,
        ) -> None:
            self.send_response(status)
            size = len(body) if length is None else length
            for name, value in {**_HEADERS, **(headers or {}), "Content-Length": str(size)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Each request is the page's; nobody reads of them."""

    return Handler


def _span(text: str, size: int) -> tuple[int, int] | None:
    """(first, one past the last) byte of ``bytes=first-last``, inside a file; None for anything else."""
    unit, _, numbers = text.partition("=")
    first, _, last = numbers.partition("-")
    if unit != "bytes" or not all(
        each.isascii() and each.isdecimal() and len(each) < 19 for each in (first, last)
    ):
        return None
    return (int(first), int(last) + 1) if int(first) <= int(last) < size else None
