"""A Triton launch as one Python program that needs only torch and triton."""

from __future__ import annotations

import ast
import base64
import re
import textwrap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.api.export.memory_blocks import Contents, require_values
from kerncap.api.export.project_words import captured_on, facts, file_stem, notes_on, plain, title, wrapped
from kerncap.api.export.python_values import Expressions, quoted
from kerncap.api.export.script_blocks import Block, Layout, lay_out
from kerncap.api.export.templates import filled
from kerncap.api.export.triton_source import KernelSource, kernel_source
from kerncap.errors import UsageError
from kerncap.format import Reproducer, schema
from kerncap.format.schema import Manifest, View
from kerncap.log import one_line, size
from kerncap.replay.tolerance import view_tolerance

MAX_INLINE = 1 << 20  # characters of data that one file may hold
_LEVEL = 6
_NOT_OPTIONS = ("stream", "device", "grid", "warmup")  # of the launch that was captured, not of the kernel
_OWN_IMPORTS = (
    "argparse", "base64", "gzip", "importlib", "os", "pathlib", "sys", "torch", "traceback", "triton", "zlib"
)  # fmt: skip
_OWN_NAMES = (
    "KERNEL", "GRID", "OPTIONS", "INTERPRETED", "DEVICE", "arguments", "tensors", "BLOCKS", "POINTERS",
    "TOLERANCE", "CAPTURED_ON", "POISONED", "GUARD", "GUARD_BYTE", "Block", "tensor", "load", "content",
    "DATA", "bits", "compare", "judge", "run", "chosen", "main",
)  # fmt: skip


@dataclass(frozen=True)
class Script:
    """The program's text, and for a folder the data files beside it, by relative path."""

    name: str
    text: str
    data: dict[str, bytes]
    notes: tuple[str, ...]
    renamed: tuple[
        str, ...
    ]  # names of its own that got an underscore, as the source has them for another thing


def make_script(reproducer: Reproducer, inline: bool, file: str | None = None) -> Script:
    """The program of a reproducer, to be called ``file``; ``inline`` puts its memory into the text.

    Raises UsageError for what no script can do, by name.
    """
    manifest = reproducer.manifest
    source = kernel_source(reproducer, _OWN_IMPORTS)
    require_values(reproducer)
    contents = Contents(reproducer)
    layout = lay_out(contents)
    contents.poisoned = contents.changed = 0
    data = {key: packed for block in layout.blocks for key, packed in _packed(contents, block, inline)}
    if inline:
        _check_inline(data, reproducer)
    name = file or f"{file_stem(manifest.kernel.name)}.py"
    text = _text(reproducer, source, layout, data, contents.poisoned, inline, name)
    ast.parse(text)  # whatever the manifest holds: what is written is a program
    files = {} if inline else {f"data/{_data_name(key)}": packed for key, packed in data.items()}
    return Script(name, text, files, tuple(_notes(contents, manifest)), tuple(_taken(source)))


# --- data ------------------------------------------------------------------------------------------------


def _packed(contents: Contents, block: Block, inline: bool) -> Iterator[tuple[str, bytes]]:
    """A block's contents by key; nothing for what is all zero."""
    makers = {part: zlib.compressobj(_LEVEL, wbits=15 if inline else 31) for part in ("after", "flip")}
    found = {part: [b""] for part in makers}
    nonzero = dict.fromkeys(makers, False)
    for _, after, flip in contents.pieces(block.span):
        for part, data in (("after", after), ("flip", flip)):
            found[part].append(makers[part].compress(data.tobytes()))
            nonzero[part] |= bool(data.any())
    for part, maker in makers.items():
        if nonzero[part]:
            yield f"{block.name}.{part}", b"".join(found[part]) + maker.flush()


def _data_name(key: str) -> str:
    return f"{key}.gz"


def _check_inline(data: dict[str, bytes], reproducer: Reproducer) -> None:
    length = sum(-(-len(packed) // 3) * 4 for packed in data.values())
    if length > MAX_INLINE:
        raise UsageError(
            f"{reproducer.path}: its memory takes {size(length)} in one file, more than {size(MAX_INLINE)}: "
            "give a folder with -o DIR, or make it smaller first with kerncap minimize"
        )


def _data_text(data: dict[str, bytes], inline: bool) -> str:
    if not inline:
        rows = "".join(f"    {quoted(key)}: {quoted(_data_name(key))},\n" for key in data)
        return f"DATA = {{\n{rows}}}\n" if data else "DATA = {}\n"
    rows = ""
    for key, packed in data.items():
        encoded = "\n".join(textwrap.wrap(base64.b64encode(packed).decode(), 108))
        rows += f'    {quoted(key)}: """\n{encoded}\n""",\n'
    return f"\n# zlib, then base64.\nDATA = {{\n{rows}}}\n\n"


# --- the text --------------------------------------------------------------------------------------------


def _text(
    reproducer: Reproducer, source: KernelSource, layout: Layout, data: dict[str, bytes], poisoned: int,
    inline: bool, file: str,
) -> str:  # fmt: skip
    manifest = reproducer.manifest
    view_keys = _view_keys(manifest)
    bare: dict[str, str] = {}  # tensors that stand for bare addresses among the arguments

    def address_of(address: int, dtype: str, name: str) -> str:
        expression = _address(reproducer, layout, address, dtype, name)
        if address:
            bare[f"{name} (a pointer)"] = expression
            expression = f"t[{quoted(f'{name} (a pointer)')}]"
        return expression

    values = Expressions(
        str(reproducer.path), lambda number: f"t[{quoted(view_keys[number])}]", address_of, source.functions
    )
    arguments = "\n".join(
        f"        {quoted(argument.name)}: {values.of(argument.value, argument.name)},"
        for argument in manifest.arguments
    )
    oracle = manifest.oracle
    judge = "judge_compared"
    judged = "What it leaves there is compared with what the application had afterwards."
    if oracle.kind in ("fault", "timeout"):
        judge, judged = "judge_ends", f"In the application it ended with a {oracle.kind}."
    elif oracle.kind == "suspect" and oracle.condition == "nonfinite":
        judge, judged = "judge_finite", "In the application it wrote NaN or infinities."
    elif oracle.kind != "trusted":
        judged += f" That result is {oracle.kind}: agreeing with it does not prove the kernel right."
    tensors = [
        *_tensors(manifest, layout, view_keys),
        *(f"        {quoted(key)}: {one}," for key, one in bare.items()),
    ]
    blocks = (f"    {quoted(one.name)}: ({one.span.size}, {one.address:#x})," for one in layout.blocks)
    parts = {
        "TITLE": title(manifest),
        "FACTS": facts(manifest),
        "FILE": plain(file),
        "ENTRY": source.entry,
        "JUDGED": wrapped(
            f"It launches the kernel once on the memory that it had in the application. {judged}"
        ),
        "FUTURE": source.future,
        "SOURCE": source.text,
        "KERNEL": f"KERNEL = {source.entry}",
        "GRID": repr(tuple(manifest.launch.grid)),
        "OPTIONS": values.mapping(launch_options(manifest)),
        "ARGUMENTS": arguments,
        "TENSORS": "\n".join(tensors),
        "BLOCKS": "\n".join(blocks),
        "POINTERS": _pointers(layout),
        "LINK": _LINK if layout.pointers else "",
        "TOLERANCE": _tolerance(manifest),
        "CAPTURED_ON": quoted(captured_on(manifest)),
        "POISONED": str(poisoned),
        "CONTENT": _CONTENT[inline],
        "DATA": _data_text(data, inline),
    }
    parts["IMPORTS"] = _imports(values, inline)
    parts["TRITON_IMPORTS"] = triton_imports(values, source)
    parts["ALLOCATOR"] = allocator(source)
    renamed = _taken(source)
    parts["JUDGE"] = _renamed(filled(f"{judge}.py.in", {}).rstrip("\n"), renamed)
    for key in ("CONTENT", "KERNEL", "LINK", "POINTERS", "DATA", "TENSORS", "ALLOCATOR"):
        parts[key] = _renamed(parts[key], renamed)
    text = filled("script.py.in", parts, lambda template: _renamed(template, renamed))
    return re.sub(r"\n{4,}", "\n\n\n", text)


_LINK = """\
    for block, offset, target, place in POINTERS:
        for state in memory, expected:
            word = tensor(state[block], offset, torch.int64, (1,), (1,))
            word.fill_(memory[target].bytes.data_ptr() + place)
"""
_CONTENT = {
    False: (
        'def content(key):\n    path = pathlib.Path(__file__).parent / "data" / DATA[key]\n'
        "    return gzip.decompress(path.read_bytes())"
    ),
    True: "def content(key):\n    return zlib.decompress(base64.b64decode(DATA[key]))",
}


def launch_options(manifest: Manifest) -> dict[str, schema.Value]:
    """What the launch passed to Triton besides the kernel's arguments: ``num_warps`` and its like."""
    given = {argument.name for argument in manifest.arguments}
    return {
        name: value
        for name, value in manifest.launch.options.items()
        if name not in given and name not in _NOT_OPTIONS and not isinstance(value, schema.NoneValue)
    }


def _taken(source: KernelSource) -> list[str]:
    return [name for name in _OWN_NAMES if name in source.names]


def _renamed(text: str, names: list[str]) -> str:
    """The script's own names out of the way of the kernel's."""
    for name in names:
        text = re.sub(rf"(?<![\w.@]){name}(?![\w@])", f"{name}_", text)
    return text


def _imports(values: Expressions, inline: bool) -> str:
    names = {"argparse", "importlib", "importlib.util", "os", "sys", "traceback"}
    names |= {"base64", "zlib"} if inline else {"gzip", "pathlib"}
    names |= values.imports & {"collections"}
    return "\n".join(f"import {name}" for name in sorted(names))


def triton_imports(values: Expressions, source: KernelSource) -> str:
    lines = [] if "triton" in source.names else ["import triton"]
    if "TensorDescriptor" in values.imports:
        lines.append("from triton.tools.tensor_descriptor import TensorDescriptor")
    return "\n".join(lines) + "\n\n" if lines else ""


def allocator(source: KernelSource) -> str:
    """Descriptors that a kernel makes for itself need memory."""
    if "make_tensor_descriptor" not in source.text:
        return ""
    return (
        '\nif hasattr(triton, "set_allocator"):  # for the descriptors that the kernel makes\n'
        "    triton.set_allocator(\n"
        "        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=DEVICE)\n    )\n"
    )


def _view_keys(manifest: Manifest) -> list[str]:
    """A name for each view; the second one of a name has its number, too."""
    names = [one_line(view.name) or f"view{number}" for number, view in enumerate(manifest.views)]
    first: dict[str, int] = {}
    return [
        name if first.setdefault(name, number) == number else f"{name}#{number}"
        for number, name in enumerate(names)
    ]


def _tensors(manifest: Manifest, layout: Layout, view_keys: list[str]) -> Iterator[str]:
    for number, view in enumerate(manifest.views):
        block = layout.block(view.region, view.offset)
        assert block is not None  # every view's storage, or its whole region, is a block
        offset = view.offset - block.span.start
        key = view_keys[number]
        shape, strides = repr(tuple(view.shape)), repr(tuple(view.strides))
        parts = (f"memory[{quoted(block.name)}]", str(offset), torch_dtype(view), shape, strides)
        yield f"        {quoted(key)}: tensor({', '.join(parts)}),"


def torch_dtype(view: View) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", view.dtype):
        raise UsageError(f"{one_line(view.name)}: a script can't make its dtype {one_line(view.dtype)}")
    return f"torch.{view.dtype}"


def _tolerance(manifest: Manifest) -> str:
    dtypes = sorted({view.dtype for view in manifest.views if view.dtype.startswith(("float", "bfloat"))})
    rows = [f"    torch.{dtype}: {view_tolerance(dtype)!r},\n" for dtype in dtypes]
    return "{\n" + "".join(rows) + "}" if rows else "{}"


def _pointers(layout: Layout) -> str:
    if not layout.pointers:
        return ""
    rows = ""
    for pointer in layout.pointers:
        at, to = (
            layout.block(pointer.region, pointer.offset),
            layout.block(pointer.target, pointer.target_offset),
        )
        assert at is not None and to is not None
        rows += (
            f"    ({quoted(at.name)}, {pointer.offset - at.span.start}, {quoted(to.name)}, "
            f"{pointer.target_offset - to.span.start}),\n"
        )
    return (
        "\n# Words of memory that are addresses: block, offset, the block that they point into, and where.\n"
        f"POINTERS = [\n{rows}]\n"
    )


def _address(reproducer: Reproducer, layout: Layout, address: int, dtype: str, name: str) -> str:
    short = dtype.rpartition(".")[2]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", short):
        raise UsageError(
            f"{reproducer.path}: a script can't make {one_line(name)}, a pointer to {one_line(dtype)}"
        )
    if address == 0:
        return f"torch.empty(0, dtype=torch.{short}, device=DEVICE)"
    for index, region in enumerate(reproducer.manifest.regions):
        if region.base <= address < region.base + region.size:
            block = layout.block(index, address - region.base)
            if block is not None:
                offset = address - region.base - block.span.start
                return f"tensor(memory[{quoted(block.name)}], {offset}, torch.{short}, (1,), (1,))"
    raise UsageError(
        f"{reproducer.path}: argument {one_line(name)} is the bare address {address:#x}, which no tensor of "
        "the launch has"
    )


def _notes(contents: Contents, manifest: Manifest) -> Iterator[str]:
    yield from notes_on(contents.reproducer)
    if manifest.oracle.kind == "trusted" and not contents.changed:
        yield "the launch changed nothing that was captured: the script has nothing to compare"
