"""Starts targets from one process that has imported torch already: most of a small target's time.

Run as a script it reads one JSON request a line, forks, and in the child does what `python FILE`
does from there on: `site`'s import of sitecustomize with the hook's folder on the path, then the
file as `__main__`. Triton is not imported here, so the hook sees its import. What is about the
start of a process (other sitecustomize files, `-m`, spawned children) does not go through here, nor
does what is about the end of its interpreter: torch takes longer to be taken apart than most targets run.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any, NoReturn


def serve() -> None:
    """Answer each request with the wait status of its child."""
    import torch

    assert "triton" not in sys.modules, "torch imported Triton before the hook could see it"
    torch.set_num_threads(1)
    gc.freeze()  # a child that looks for garbage would copy every page of it
    requests = os.fdopen(os.dup(0), "rb", buffering=0)  # unbuffered: a child must not hold a later request
    answers = os.dup(1)
    while line := _line(requests):
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            requests.close()
            os.close(answers)
            _become(request)
        _, status = os.waitpid(child, 0)
        os.write(answers, f"{status}\n".encode())
    sys.exit(0)


def _line(file: Any) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece: bytes = file.read(1)
        if not piece:
            break
        data += piece
    return data


def _become(request: dict[str, Any]) -> NoReturn:
    status = 1
    try:
        _run(request)
        status = 0
    except SystemExit as end:
        status = _status(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:  # as Python ends, in its order, but for the modules
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _run(request: dict[str, Any]) -> None:
    os.chdir(request["cwd"])
    for number, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        fd = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["target.py"]
    path = [entry for entry in request["environment"].get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[0:1] = path
    sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        pass
    sys.path.insert(0, request["cwd"])
    module = types.ModuleType("__main__")
    file = str(Path("target.py").resolve())
    module.__file__ = file
    sys.modules["__main__"] = module
    text = Path(file).read_text()
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)


if __name__ == "__main__":
    serve()
