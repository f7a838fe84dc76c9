"""Started as `python /.../bootstrap.py WHAT ...`: loads the worker by path, and does WHAT.

WHAT is
    serve JOB RELOCATE READ_FD WRITE_FD     a replay worker
    compile JOBS PROCESSES READ_FD WRITE_FD the process that compiles ahead
    nursery SOCKET_FD [begin]               a process that forks any of the others, its modules loaded
    once JOB REQUESTS REPLIES               a worker with its requests in a file, for a tool that holds it
    code_object JOB SOURCE ARCH OUT         a Triton kernel's source made into an image, confined
    confined OUT SOURCE HIDDEN... -- SCRIPT ARGUMENT...
                                            a script that writes to OUT alone
    measure ORDINAL                         the ceilings of a device
    packages | agents | driver | device ORDINAL
                                            a question about this Python or this machine

The package gets a private name, so the Python that runs it needs no kerncap. Nothing is searched for in our
folder or the current one: `sys.path` has what the user gave it, and no more.
"""

import gc
import importlib.util
import os
import sys


def main(folder: str, what: str, *given: str) -> None:
    """Do it."""
    _load(folder)
    if what == "nursery":
        gc.disable()
        from _kerncap_worker import nursery  # type: ignore[import-not-found]

        what, *rest = nursery.serve(int(given[0]), given[1:] == ("begin",))
        _be(what, *rest)
        _end()
    else:
        _be(what, *given)


def _be(what: str, *given: str) -> None:
    if what in ("serve", "compile"):
        gc.disable()  # until torch is there: looking for garbage among what is loaded is a seventh of it
        _serve(what, *given)
    elif what == "once":
        from _kerncap_worker.serve_loop import serve  # type: ignore[import-not-found]

        job, requests, replies = given
        write_fd = os.open(replies, os.O_WRONLY | os.O_CREAT, 0o600)
        serve(job, os.open(requests, os.O_RDONLY), write_fd, True)
    elif what == "code_object":
        from _kerncap_worker.torch_backend import code_object  # type: ignore[import-not-found]

        code_object.main(*given)
    elif what == "confined":
        from _kerncap_worker.torch_backend import confine

        confine.run_script(*given)
    elif what == "confined_program":
        from _kerncap_worker.torch_backend import confine

        confine.run_program(*given)
    elif what == "measure":
        from _kerncap_worker.limits import measure  # type: ignore[import-not-found]

        measure.main(int(given[0]))
    else:
        from _kerncap_worker import probe

        probe.main(what, *given)


def _load(folder: str) -> None:
    own = (folder, os.path.realpath(folder))  # Python resolves links in what it puts there
    sys.path[:] = [entry for entry in sys.path if entry and entry not in own]
    spec = importlib.util.spec_from_file_location(
        "_kerncap_worker", folder + "/__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["_kerncap_worker"] = package
    spec.loader.exec_module(package)


def _serve(what: str, *given: str) -> None:
    *words, read_fd, write_fd = given
    if what == "compile":
        from _kerncap_worker.torch_backend import compile_ahead

        compile_ahead.serve(words[0], int(read_fd), int(write_fd), int(words[1]))
    else:
        from _kerncap_worker.serve_loop import serve

        serve(words[0], int(read_fd), int(write_fd), words[1] == "1")
    # An orderly end takes half a second with torch, and there is nothing left to lose; ROCr needs it.
    if "torch" in sys.modules or "cuda.bindings.driver" in sys.modules:
        _end()


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":  # a process that multiprocessing spawns imports this file again
    main(__file__.rpartition("/")[0], *sys.argv[1:])
