"""Whether a source module is nothing but kernels: then its launch can do nothing but launch the kernel.

What else a module does when it is imported (another current stream, a patched launcher) needs to be looked
for on the device, which takes longer than all the rest of a judgement.
"""

from __future__ import annotations

import ast

_MODULES = ("triton", "torch", "math", "__future__", "typing")
_CALLS = ("float", "int", "constexpr")


def is_plain(text: str) -> bool:
    """Imports of well-known modules, ``@triton.jit`` functions, constants; False if in doubt."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_plain(each) for each in module.body)


def _is_plain(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(_known(each.name) and _apart(each) for each in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and _known(node.module or "") and all(map(_apart, node.names))
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        values = [*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None)]
        noted = [each.annotation for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        noted.append(node.returns)
        return (
            len(node.decorator_list) == 1
            and _is_jit(node.decorator_list[0])
            and all(map(_is_constant, values))
            and all(each is None or _is_name(each) or isinstance(each, ast.Constant) for each in noted)
        )
    if isinstance(node, ast.Assign):
        return all(isinstance(each, ast.Name) for each in node.targets) and _is_constant(node.value)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and (node.value is None or _is_constant(node.value))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _known(module: str) -> bool:
    return module.partition(".")[0] in _MODULES


def _apart(name: ast.alias) -> bool:
    """It takes no well-known name for something else."""
    bound = name.asname or name.name.partition(".")[0]
    return bound not in _MODULES or bound == name.name.partition(".")[0]


def _is_jit(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return (
            not node.args and _is_jit(node.func) and all(_is_constant(each.value) for each in node.keywords)
        )
    return ast.unparse(node) in ("triton.jit", "jit")


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_name(node.value))


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func).rpartition(".")[2]
        return function in _CALLS and all(map(_is_constant, node.args)) and not node.keywords
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_constant, node.elts))
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, ast.Constant) or _is_name(node)
