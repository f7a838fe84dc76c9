"""Started as `python -c <this text> FOLDER ORDINAL`: measures a device and prints one JSON document.

Like the replay worker, it is loaded by path under a private name: the Python needs no kerncap, only numpy.
"""

import importlib.util
import sys

folder, ordinal = sys.argv[1:3]
sys.path[:] = [entry for entry in sys.path if entry != ""]
spec = importlib.util.spec_from_file_location(
    "_kerncap_worker", folder + "/__init__.py", submodule_search_locations=[folder]
)
assert spec is not None and spec.loader is not None
package = importlib.util.module_from_spec(spec)
sys.modules["_kerncap_worker"] = package
spec.loader.exec_module(package)

from _kerncap_worker.limits.measure import main  # type: ignore[import-not-found]  # noqa: E402

main(int(ordinal))
