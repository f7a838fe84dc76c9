"""The command's side: it hands its words to a judge, which it may have to start, and prints the answer."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence

from kerncap import child, log
from kerncap.cli.resident.judge_socket import Folder, own_name

_SERVER = "kerncap.cli.resident.server"


def ask(words: Sequence[str]) -> int | None:
    """Have the words of a command carried out; its exit status, None if the judge ended on the way.

    Raises UsageError for a folder that others can open.
    """
    with Folder() as folder, folder.locked():
        name = own_name()
        connected = folder.connect(name) or _started(folder, name)
    request = {"words": [*words], "folder": os.getcwd()}
    with connected, connected.makefile("rb") as lines:
        connected.sendall(json.dumps(request).encode() + b"\n")
        for line in lines:
            said = json.loads(line)
            if "status" in said:
                return int(said["status"])
            stream = sys.stdout if said["stream"] == 1 else sys.stderr
            stream.write(said["text"])
            stream.flush()
    log.line("the resident judge ended too early; the command goes on by itself")
    return None


def stop() -> list[int]:
    """End every judge of this user's; their processes, which may take a moment to be gone."""
    ended = []
    with Folder() as folder:
        for name in folder.names():
            connected = folder.connect(name)
            if connected is None:
                folder.remove(name)
                continue
            with connected, connected.makefile("rb") as lines:
                connected.sendall(b'{"stop": true}\n')
                if answer := lines.readline():  # else it has just ended by itself
                    ended.append(json.loads(answer)["pid"])
    return ended


def _started(folder: Folder, name: str) -> socket.socket:
    """A connection to a new judge. It listens already as it starts: nothing is waited for."""
    listening = folder.listen(name)
    with listening:
        os.set_inheritable(listening.fileno(), True)
        words = child.kerncap(_SERVER, str(listening.fileno()), name)
        child.detached(words, pass_fds=(listening.fileno(),))
        connected = folder.connect(name)
    assert connected is not None
    return connected
