"""Started as `python -c <this text> FOLDER READ_FD WRITE_FD WHAT ...`: loads the worker by path.

WHAT is `serve JOB RELOCATE`, `compile JOBS PROCESSES`, or `standby device|host`: torch is imported, and the
first line that is read says which of the others it is.

The package gets a private name, so the Python that runs it needs no kerncap and its `sys.path` stays its own.
"""

import gc
import importlib.util
import os
import sys

gc.disable()  # until torch is there: looking for garbage among what is loaded is a seventh of loading it
folder, read_fd, write_fd, *what = sys.argv[1:]
sys.path[:] = [entry for entry in sys.path if entry != ""]
spec = importlib.util.spec_from_file_location(
    "_kerncap_worker", folder + "/__init__.py", submodule_search_locations=[folder]
)
assert spec is not None and spec.loader is not None
package = importlib.util.module_from_spec(spec)
sys.modules["_kerncap_worker"] = package
spec.loader.exec_module(package)

if what[0] == "standby":
    from _kerncap_worker import standby  # type: ignore[import-not-found]

    what = standby.wait(int(read_fd), device=what[1] == "device")

if what[0] == "compile":
    from _kerncap_worker import compile as compiling

    compiling.serve(what[1], int(read_fd), int(write_fd), int(what[2]))
else:
    from _kerncap_worker.server import serve  # type: ignore[import-not-found]

    serve(what[1], int(read_fd), int(write_fd), what[2] == "1")

if "torch" in sys.modules:  # its orderly end takes half a second, and there is nothing left to lose
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
