"""Started as `python -c <this text> FOLDER JOB READ_FD WRITE_FD RELOCATE`: loads the worker by path.

The package gets a private name, so the Python that runs it needs no kerncap and its `sys.path` stays its own.
"""

import importlib.util
import os
import sys

folder, job, read_fd, write_fd, relocate = sys.argv[1:6]
sys.path[:] = [entry for entry in sys.path if entry != ""]
spec = importlib.util.spec_from_file_location(
    "_kerncap_worker", folder + "/__init__.py", submodule_search_locations=[folder]
)
assert spec is not None and spec.loader is not None
package = importlib.util.module_from_spec(spec)
sys.modules["_kerncap_worker"] = package
spec.loader.exec_module(package)

from _kerncap_worker.server import serve  # type: ignore[import-not-found]  # noqa: E402

serve(job, int(read_fd), int(write_fd), relocate == "1")

if "torch" in sys.modules:  # its orderly end takes half a second, and there is nothing left to lose
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
