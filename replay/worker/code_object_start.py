"""Started as `python -c <this text> FOLDER JOB SOURCE ARCH OUT`: see code_object.py.

Like the replay worker, it is loaded by path under a private name: the Python needs no kerncap.
"""

import importlib.util
import sys

folder, *arguments = sys.argv[1:6]
sys.path[:] = [entry for entry in sys.path if entry != ""]
spec = importlib.util.spec_from_file_location(
    "_kerncap_worker", folder + "/__init__.py", submodule_search_locations=[folder]
)
assert spec is not None and spec.loader is not None
package = importlib.util.module_from_spec(spec)
sys.modules["_kerncap_worker"] = package
spec.loader.exec_module(package)

from _kerncap_worker.code_object import main  # type: ignore[import-not-found]  # noqa: E402

main(*arguments)
