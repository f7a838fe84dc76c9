"""Started as `python /.../kerncap/start.py MODULE ARGUMENTS`: runs `main` of a module of this very kerncap.

By path, not by `-m`: nothing is searched for in the current folder, and the kerncap that runs is the one
that asked, wherever it was imported from.
"""

import sys

if __name__ == "__main__":  # a process that multiprocessing spawns imports this file again
    folder = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry and entry != folder]  # `kerncap/mcp` is not `mcp`

    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("kerncap", folder + "/__init__.py", submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    package = module_from_spec(spec)
    sys.modules["kerncap"] = package
    spec.loader.exec_module(package)
    import_module("kerncap.child").restore()
    name = sys.argv.pop(1)
    sys.exit(import_module(name).main())
