"""Imports every module of a folder, with liger_kernel out of reach; prints those that fail as JSON."""

import importlib.util
import json
import sys
from pathlib import Path

sys.modules["liger_kernel"] = None  # importing it from here on is an error
failed = {}
for path in sorted(Path(sys.argv[1]).glob("*/kernel.py")):
    try:
        spec = importlib.util.spec_from_file_location(f"made_{path.parent.name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, path.with_name("entry").read_text())
        if hasattr(kernel, "cache_key"):
            kernel.cache_key  # noqa: B018  walks every name as the JIT does, and refuses what it cannot take
    except Exception as error:
        failed[path.parent.name] = f"{type(error).__name__}: {error}"
Path(sys.argv[2]).write_text(json.dumps(failed))
