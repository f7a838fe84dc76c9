"""Started as `python -c <this text> FOLDER JOB REQUESTS REPLIES` by a profiler: a replay worker with its
requests in a file.

Nobody answers while a profiler holds the process, so all is asked beforehand.
"""

import importlib.util
import os
import sys

folder, job, requests, replies = sys.argv[1:5]
sys.path[:] = [entry for entry in sys.path if entry != ""]
spec = importlib.util.spec_from_file_location(
    "_kerncap_worker", folder + "/__init__.py", submodule_search_locations=[folder]
)
assert spec is not None and spec.loader is not None
package = importlib.util.module_from_spec(spec)
sys.modules["_kerncap_worker"] = package
spec.loader.exec_module(package)

from _kerncap_worker.server import serve  # type: ignore[import-not-found]  # noqa: E402

serve(job, os.open(requests, os.O_RDONLY), os.open(replies, os.O_WRONLY | os.O_CREAT, 0o600), True)
