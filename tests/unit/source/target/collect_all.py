"""Runs in the target: collects every case, and runs those that the interpreter can run as they are."""

import importlib
import json
import sys

import torch
import triton
from collector.source_graph import collect

INTERPRET = triton.knobs.runtime.interpret
graphs, results = {}, {}
for name in sys.argv[2:]:
    module = importlib.import_module(f"kc_cases.{name}")
    if INTERPRET and getattr(module, "runs", True) is True:
        x, y = torch.arange(16.0), torch.zeros(16)
        launch = getattr(module, "launch", lambda kernel, x, y, module: kernel[(1,)](x, y, B=16))
        launch(module.kernel, x, y, module)
        results[name] = y.tolist()
    graphs[name] = collect(module.kernel, extra=getattr(module, "extra", ()))
    wanted = {key: getattr(module, key) for key in ("signature", "constexprs") if hasattr(module, key)}
    flags = {key: bool(getattr(module, key, True)) for key in ("runs", "compiles")}
    graphs[name]["test"] = {**flags, **wanted}
    if hasattr(module, "expected"):
        graphs[name]["test"]["expected"] = module.expected(torch.arange(16.0)).tolist()
with open(sys.argv[1], "w") as out:
    json.dump({"graphs": graphs, "results": results}, out)
