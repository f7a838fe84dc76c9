"""Starts kerncap's hook in a Python process of the target; found through PYTHONPATH.

Three promises: without a readable session nothing happens; another `sitecustomize` further down
`sys.path` runs as if this one were not there; nothing in here raises into the target.
"""

import sys


def _start(folder: str) -> None:
    # Our folder leaves sys.path, so that the target can't import anything of ours by accident.
    # os.environ keeps PYTHONPATH: children find their way here by it.
    import os

    def is_ours(entry: str) -> bool:
        try:
            return os.path.realpath(entry) == folder
        except Exception:
            return False

    sys.path[:] = [entry for entry in sys.path if not is_ours(entry)]
    session = os.environ.get("KERNCAP_SESSION")
    if not session:
        return
    if os.path.isdir(session):
        session = os.path.join(session, "session.json")
    if not os.access(session, os.R_OK) or "kerncap_triton" in sys.modules:
        return

    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.join(folder, "kerncap_triton")
    spec = spec_from_file_location(
        "kerncap_triton", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["kerncap_triton"] = module
    spec.loader.exec_module(module)
    if os.path.basename(session) == "sanitize.json":
        from kerncap_triton.sanitize import start

        start.install(session)
        return
    from kerncap_triton import importer

    importer.install(session)


def _chain() -> None:
    """Run the next sitecustomize under its own name; without another one, act as if this one were absent."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        # `site` takes exactly this error for "no sitecustomize", which is then what the target sees.
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)  # its errors are the target's, and `site` reports them


try:
    import os

    _start(os.path.dirname(os.path.realpath(__file__)))
except Exception:
    pass
_chain()
