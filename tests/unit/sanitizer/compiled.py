"""Triton kernels of the tests, compiled to TTIR with no GPU, and launches of them with made-up memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.memory_before_launch import ContentsSource
from kerncap.sanitizer.launch import Launch, ScalarArgument, Storage, TensorArgument
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.walk import walk

# Types as Triton's signatures spell them: torch's name and bytes.
DTYPES = {
    "fp16": ("float16", 2), "bf16": ("bfloat16", 2), "fp32": ("float32", 4), "fp64": ("float64", 8),
    "i1": ("bool", 1), "i8": ("int8", 1), "i16": ("int16", 2), "i32": ("int32", 4), "i64": ("int64", 8),
}  # fmt: skip


def ttir_of(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    target: tuple[str, Any, int] = ("cuda", 90, 32),
    stage: str = "ttir",
    **options: Any,
) -> str:
    """The optimised TTIR of a jit function, of Gluon its TTGIR; stages behind ``stage`` are not run."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    if kernel.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource as ASTSource
    else:
        from triton.compiler import ASTSource

    names = list(kernel.arg_names)
    types = {name: signature.get(name, "constexpr") for name in names}
    source = ASTSource(kernel, types, constexprs={(names.index(k),): v for k, v in constants.items()})
    gpu = GPUTarget(*target)
    backend = make_backend(gpu)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the backend's own, about its defaults
        parsed = backend.parse_options(options)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(parsed)
    module = source.make_ir(gpu, parsed, functions, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    for name in ("ttir", "ttgir"):
        if name in stages:
            module = stages[name](module, {})
        if name == stage:
            break
    return str(module)


def launch_of(
    kernel: Any,
    grid: tuple[int, ...],
    signature: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    **values: Any,
) -> Launch:
    """A launch with a storage of its own for every pointer: ``x=(64, 32)`` is its tensor's shape."""
    arguments: list[TensorArgument | ScalarArgument] = []
    storages: list[Storage] = []
    for name, kind in signature.items():
        if not kind.startswith("*"):
            arguments.append(ScalarArgument(name, values[name]))
            continue
        dtype, itemsize = DTYPES[kind[1:]]
        shape = tuple(values[name])
        strides: list[int] = []
        count = 1
        for extent in reversed(shape):
            strides.insert(0, count)
            count *= extent
        address = (len(storages) + 1) << 32
        storages.append(Storage(address, count * itemsize, address, count * itemsize, name))
        arguments.append(
            TensorArgument(name, len(storages) - 1, address, dtype, itemsize, shape, tuple(strides))
        )
    import triton

    x, y, z = (*grid, 1, 1, 1)[:3]
    ttir = ttir_of(kernel, signature, constants or {})
    return Launch(
        kernel.__name__, ttir, (x, y, z), tuple(arguments), tuple(storages), triton=triton.__version__
    )


def analysis_of(launch: Launch, **options: Any) -> Analysis:
    """What the checks look at, as the engine makes it; ``options`` as `Options` takes them."""
    module = read_module(launch.ttir)
    solver = Solver(ContentsSource(launch))
    walked = walk(module, module.kernel, launch, solver)
    return Analysis(launch, module, module.kernel, walked, solver, Options(**options))
