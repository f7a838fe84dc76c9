"""Runs in the target: collects every jit function of liger_kernel.ops and of what it imports."""

import importlib
import json
import pkgutil
import sys

import liger_kernel.ops
from collector.source_graph import collect, jit_kind, unwrap

graphs, skipped = {}, {}
for found in pkgutil.walk_packages(liger_kernel.ops.__path__, "liger_kernel.ops."):
    try:
        module = importlib.import_module(found.name)
    except Exception as error:  # other vendors' backends do not import here
        skipped[found.name] = f"{type(error).__name__}: {error}"
        continue
    for name, value in vars(module).items():
        kernel = unwrap(value)
        if jit_kind(kernel) and kernel.fn.__module__ == found.name:
            graphs[f"{found.name}.{name}"] = collect(value)
with open(sys.argv[1], "w") as out:
    json.dump({"graphs": graphs, "skipped": skipped}, out)
