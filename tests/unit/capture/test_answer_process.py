"""The process that answers the shims' questions, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from kerncap.capture import answer_process

OWNER = """
    import os, sys
    import numpy  # as the command line does: it has threads of its own
    from pathlib import Path
    from kerncap.capture import answer_process
    answer = lambda question: {"pid": os.getpid(), "asked": question["ask"]}
    process = answer_process.start(Path(sys.argv[1]), "secret", answer)
    print(os.getpid(), process.path, flush=True)
    if sys.stdin.readline() == "close":
        process.close()
"""


def ask(path: str) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(json.dumps({"token": "secret", "process": "1-0", "ask": "match"}).encode())
        connection.shutdown(socket.SHUT_WR)
        answer: dict[str, object] = json.loads(connection.makefile().read())
        return answer


@pytest.mark.parametrize("end", ["close", "end", "SIGKILL"])
def test_it_answers_until_its_owner_ends(tmp_path: Path, end: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None and owner.stdout is not None
    pid, path = owner.stdout.readline().split()
    first = ask(path)
    assert first["asked"] == "match" and first["pid"] != int(pid)
    os.kill(int(str(first["pid"])), signal.SIGINT)  # a Ctrl-C is the target's, and its owner's
    assert ask(path) == first
    if end == "SIGKILL":
        owner.kill()
    owner.stdin.write(end)
    owner.stdin.close()
    assert owner.stdout.read() == ""  # it has the answering process's descriptor, too: both have ended
    owner.stdout.close()
    assert owner.wait() == (-signal.SIGKILL if end == "SIGKILL" else 0)
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    let_go = threading.Event()
    thread = threading.Thread(target=let_go.wait)
    thread.start()
    try:
        assert answer_process.start(tmp_path, "secret", lambda question: {}) is None
    finally:
        let_go.set()
        thread.join()
    assert list(tmp_path.iterdir()) == []


def test_no_socket_no_process() -> None:
    program = """
        from kerncap.capture import answer_process
        def full(*arguments):
            raise OSError
        answer_process.SessionServer = full
        print(answer_process.start(None, "secret", None))
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_capture_of_the_command_line_has_one(tmp_path: Path) -> None:
    told = """
        import json, os
        from pathlib import Path
        print(json.loads(Path(os.environ["KERNCAP_SESSION"], "session.json").read_bytes())["questions"])
    """
    program = "import sys; from kerncap.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "capture", "-k", "x", "-o", str(tmp_path / "out"), "--"]
    words += [sys.executable, "-c", textwrap.dedent(told)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert Path(done.stdout.strip()).name == "questions", done
    assert not (tmp_path / "out").exists()
