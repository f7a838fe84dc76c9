"""Pythons with a Triton that has one mistake in it, as a patched wheel would."""

from __future__ import annotations

import sys
import sysconfig
import textwrap
import venv
from pathlib import Path

# Changes Triton's backend for NVIDIA as soon as it is imported, in every process of this Python.
_WHEN_IMPORTED = '''
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "triton.backends.nvidia.compiler":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            plant(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())

def edited(module, old, new):
    """The module with other text in it."""
    import os, tempfile
    from triton._C.libtriton import ir
    text = str(module)
    assert old in text, text
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.mlir")
        with open(path, "w") as file:
            file.write(text.replace(old, new))
        made = ir.parse_mlir_module(path, module.context)
    made.context = module.context
    return made
'''

# A canonicalizer that folds 2.5 + 0.5 to 3.5.
WRONG_FOLD = """
def plant(compiler):
    from triton._C.libtriton import ir, passes

    def make_ttir(module, metadata, options, capability):
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.common.add_inliner(manager)
        passes.common.add_canonicalizer(manager)
        manager.run(module, "make_ttir")
        module = edited(module, "dense<3.000000e+00>", "dense<3.500000e+00>")
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.ttir.add_combine(manager)
        passes.common.add_cse(manager)
        manager.run(module, "make_ttir")
        return module

    compiler.CUDABackend.make_ttir = staticmethod(make_ttir)
"""

# A pass for layouts that turns a comparison around.
WRONG_LAYOUTS = """
def plant(compiler):
    from triton._C.libtriton import ir, passes

    def make_ttgir(module, metadata, options, capability):
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.ttir.add_convert_to_ttgpuir(manager, f"cuda:{capability}", options.num_warps, 32, 1)
        passes.ttgpuir.add_coalesce(manager)
        manager.run(module, "make_ttgir")
        module = edited(module, "arith.mulf", "arith.addf")
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.ttgpuir.add_remove_layout_conversions(manager)
        manager.run(module, "make_ttgir")
        return module

    compiler.CUDABackend.make_ttgir = staticmethod(make_ttgir)
"""

# A frontend that makes another operation of `a - b`.
WRONG_FRONTEND = """
def plant(compiler):
    from triton._C.libtriton import ir

    ir.builder.create_fsub = ir.builder.create_fadd
"""

# A pass manager that fails after a pass.
FAILING = """
def plant(compiler):
    from triton._C.libtriton import ir, passes

    def make_ttgir(module, metadata, options, capability):
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.ttir.add_convert_to_ttgpuir(manager, f"cuda:{capability}", options.num_warps, 32, 1)
        passes.ttgpuir.add_coalesce(manager)
        manager.run(module, "make_ttgir")
        raise RuntimeError("PassManager::run failed")

    compiler.CUDABackend.make_ttgir = staticmethod(make_ttgir)
"""

# LLVM's part: PTX that multiplies where it should add.
WRONG_PTX = """
def plant(compiler):
    import re
    right = compiler.CUDABackend.make_ptx

    def make_ptx(self, source, metadata, options, capability):
        text = right(self, source, metadata, options, capability)
        made, count = re.subn(r"\\b(fma\\.rn\\.f32\\s+(%\\S+, %\\S+, )(\\S+), \\S+;)",
                              lambda one: f"mul.rn.f32 \\t{one[2][:-2]}, {one[3]};", text)
        assert count, text
        return made

    compiler.CUDABackend.make_ptx = make_ptx
"""

# A plugin of Triton's own kind, which adds to a stage: it turns a subtraction around after all passes.
PLUGIN = """
def turned_around(backend=None, stages=None, options=None, language=None, capability=None):
    if stages is None:
        return "turned around", "0"
    right = stages["ttir"]
    stages["ttir"] = lambda module, metadata: edited(right(module, metadata), "arith.subf", "arith.addf")

def plant(compiler):
    from triton import knobs

    knobs.runtime.add_stages_inspection_hook = turned_around
"""

# An assembler that makes another image than the PTX says.
WRONG_IMAGE = """
def plant(compiler):
    right = compiler.CUDABackend.make_cubin

    def make_cubin(self, source, metadata, options, capability):
        assert "0f40400000" in source.lower(), source
        wrong = source.replace("0f40400000", "0f40600000").replace("0F40400000", "0f40600000")
        return right(self, wrong, metadata, options, capability)

    compiler.CUDABackend.make_cubin = make_cubin
"""


def python_with(folder: Path, mistake: str) -> Path:
    """A Python in ``folder`` with the packages of this one, and a Triton with a mistake."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    [packages] = folder.glob("lib/python*/site-packages")
    own = [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))]
    lines = [*dict.fromkeys(own), "import planted_in_triton"]
    (packages / "planted.pth").write_text("\n".join(lines) + "\n")
    (packages / "planted_in_triton.py").write_text(textwrap.dedent(_WHEN_IMPORTED) + mistake)
    return python
