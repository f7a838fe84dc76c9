"""Runs without the package: imports every module made of a graph, then runs it or compiles it for a GPU."""

import importlib.util
import json
import sys
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

LAUNCHES = {
    "nested": lambda kernel, x, y, module: kernel[(1,)](x, y, 16, 16),
    "tuned": lambda kernel, x, y, module: kernel[(1,)](x, y, 16, 16, True),
    "passed": lambda kernel, x, y, module: kernel[(1,)](x, y, module.scale, 16),
    "inductor": lambda kernel, x, y, module: kernel[(1,)](x, y, 16, 16),
}
out, compiled = {}, {}
for name, case in json.loads(Path(sys.argv[1]).read_text()).items():
    try:
        spec = importlib.util.spec_from_file_location(f"made_{case['short']}", case["path"])
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, case["entry"])
        if triton.knobs.runtime.interpret:
            if case["runs"]:
                x, y = torch.arange(16.0), torch.zeros(16)
                launch = LAUNCHES.get(case["short"], lambda kernel, x, y, module: kernel[(1,)](x, y, B=16))
                launch(kernel, x, y, module)
                out[name] = y.tolist()
            else:
                out[name] = None
        else:
            signature = case.get("signature", {"x": "*fp32", "y": "*fp32", "B": "constexpr"})
            defaults = {
                each.name: each.default for each in kernel.params if each.has_default and each.is_constexpr
            }
            signature = {**dict.fromkeys(defaults, "constexpr"), **signature}
            signature = {each: signature[each] for each in kernel.arg_names}
            constants = {**defaults, **case.get("constexprs", {})}
            constants.setdefault("B", 16)
            constants = {each: value for each, value in constants.items() if each in signature}
            constants |= {"f": module.scale} if "f" in signature else {}
            made_of = GluonASTSource if isinstance(kernel, GluonJITFunction) else ASTSource
            source = made_of(
                kernel, signature, {(kernel.arg_names.index(k),): v for k, v in constants.items()}
            )
            # Both modes assemble the same text, as another test says.
            lines = [
                each for each in Path(case["path"]).read_text().splitlines() if not each.startswith("# ")
            ]
            key = str((lines, signature, constants))
            if key not in compiled:
                ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
                compiled[key] = "st.global" in ptx
            out[name] = compiled[key]
    except Exception as error:
        out[name] = f"{type(error).__name__}: {error}"
Path(sys.argv[2]).write_text(json.dumps(out))
