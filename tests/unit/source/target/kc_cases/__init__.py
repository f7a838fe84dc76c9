"""Kernels as programs write them, one situation per module.

Each module has `kernel`, `expected(x)` for the 16 floats of `x`, and where they differ from the usual:
`constexprs` (besides B), `extra` (jit functions that it is passed), `runs` (False: the interpreter cannot
run it), `launch(kernel, x, y, module)`.
"""
