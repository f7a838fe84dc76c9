"""Writes from shims/contract/*.def what other languages know of it: run after an edit there.

python tools/contract.py           write Python's mirror and the tables of docs/session.md
python tools/contract.py --check   exit status 1 if one of them is not current (make lint)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = ROOT / "shims" / "contract"
MIRROR = ROOT / "shims" / "triton" / "kerncap_triton" / "contract.py"  # kerncap/format has a link to it
PAGE = ROOT / "docs" / "session.md"
OPTION_TYPES = {  # as options.def has them: in Python's words, in those of the page
    "count": ("int", "n"),
    "flag": ("bool", "bool"),
    "seconds": ("float", "seconds"),
    "text": ("str", "text"),
    "maybe_text": ("Optional[str]", "text or null"),
    "maybe_count": ("Optional[int]", "n or null"),
    "launches": ("Optional[Tuple[int, int]]", "[first, end] or null"),
    "ranks": ("Optional[List[int]]", "[n] or null"),
    "steps": ("Optional[List[List[Any]]]", "[step] or null"),
    "backend": ("Backend", "Backend"),
    "when": ("Optional[When]", "When or null"),
    "memory": ("Memory", "Memory"),
}
C_TYPES = {
    "void": "None",
    "int": "ctypes.c_int",
    "long": "ctypes.c_long",
    "unsigned long": "ctypes.c_ulong",
    "unsigned long long": "ctypes.c_uint64",
    "char*": "ctypes.c_char_p",
    "unsigned long long*": "ctypes.c_void_p",
    "long long*": "ctypes.c_void_p",
    "void*": "ctypes.c_void_p",
}
_ENTRY = re.compile(r"^KERNCAP_(\w+?)\((.*?)\)\s*(?://\s*(.*))?$")


class ContractError(Exception):
    """A .def file that says something that can't be."""


@dataclass(frozen=True)
class Entry:
    macro: str
    arguments: tuple[str, ...]
    comment: str


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Option:
    group: str
    name: str
    type: str
    default: object
    comment: str


@dataclass(frozen=True)
class Function:
    name: str
    result: str
    parameters: tuple[tuple[str, str], ...]  # type and name, as C has them
    only_cuda: bool
    declaration: str
    comment: str


@dataclass
class Contract:
    """All that the .def files say, in their order. Raises ContractError for what contradicts itself."""

    kinds: list[tuple[str, int, str]] = field(default_factory=list)
    objects: dict[str, list[Field]] = field(default_factory=dict)
    words: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    options: list[Option] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        """Each key once, sorted."""
        return sorted({one.name for fields in self.objects.values() for one in fields})

    @classmethod
    def read(cls, folder: Path = CONTRACT) -> Contract:
        self = cls()
        for entry in _entries(folder / "records.def"):
            self.kinds.append((entry.arguments[0], int(entry.arguments[1]), entry.comment))
        self._read_payloads(folder / "payloads.def")
        for entry in _entries(folder / "words.def"):
            group, name, text = entry.arguments
            self.words.setdefault(group, []).append((name, _text(text), entry.comment))
        for entry in _entries(folder / "options.def"):
            group, name, kind, default = entry.arguments
            if kind not in OPTION_TYPES or any(one.name == name for one in self.options):
                raise ContractError(
                    f"options.def: {name}: a type that is not known, or a second one of its name"
                )
            self.options.append(Option(group, name, kind, _default(default), entry.comment))
        for entry in _entries(folder / "functions.def"):
            self.functions.append(_function(entry))
        return self

    def _read_payloads(self, path: Path) -> None:
        known: set[str] = set()
        fields: list[Field] = []
        for entry in _entries(path):
            name = entry.arguments[0]
            if entry.macro == "OBJECT":
                fields = self.objects.setdefault(name, [])
                continue
            if (entry.macro == "AGAIN") != (name in known):
                raise ContractError(f"payloads.def: {name}: KERNCAP_KEY is for a key's first object")
            if any(one.name == name for one in fields):
                raise ContractError(f"payloads.def: {name}: twice in one object")
            known.add(name)
            fields.append(Field(name, _text(entry.arguments[1]), entry.comment))


def _entries(path: Path) -> Iterator[Entry]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("//"):
            continue
        match = _ENTRY.match(line)
        if match is None:
            raise ContractError(f"{path.name}:{number}: no entry: {line!r}")
        yield Entry(match[1], tuple(_split(match[2])), match[3] or "")


def _split(text: str) -> list[str]:
    """Arguments of a macro: commas inside quotes or brackets separate nothing."""
    parts = re.findall(r'(?:"[^"]*"|\([^)]*\)|[^,"(])+', text)
    return [part.strip() for part in parts]


def _text(argument: str) -> str:
    if len(argument) < 2 or argument[0] != '"' or argument[-1] != '"':
        raise ContractError(f"{argument}: expected a text in quotes")
    return argument[1:-1]


def _default(argument: str) -> object:
    fixed: dict[str, object] = {"none": None, "false": False, "true": True}
    if argument in fixed:
        return fixed[argument]
    if argument.startswith('"'):
        return _text(argument)
    return float(argument) if "." in argument else int(argument)


def _function(entry: Entry) -> Function:
    name, result, inside = entry.arguments
    parameters = []
    for one in inside.strip("()").split(","):
        if one.strip() != "void":
            kind, _, parameter = one.replace("const ", "").strip().rpartition(" ")
            parameters.append((kind, parameter))
    for kind in (result, *(kind for kind, _ in parameters)):
        if kind not in C_TYPES:
            raise ContractError(f"functions.def: {name}: no ctypes type for {kind!r}")
    only_cuda = entry.macro == "CUDA_FUNCTION"
    declaration = f"{result} kerncap_{'cuda' if only_cuda else '<vendor>'}_{name}{inside}"
    return Function(name, result, tuple(parameters), only_cuda, declaration, entry.comment)


# --- Python ------------------------------------------------------------------------------------------


def _python_names(contract: Contract) -> str:
    """Kinds, keys, words."""
    header = (CONTRACT / "records.h").read_text(encoding="utf-8")
    values = dict(re.findall(r"#define KERNCAP_RECORD_(\w+) (\(.*?\)|\w+)", header))
    lines = [
        *(
            f"{name} = {values[name].replace('U', '')}"
            for name in ("MAGIC", "VERSION", "ALIGNMENT", "MAX_PAYLOAD")
        ),
        f'HEADER = struct.Struct("{_header_format(header)}")',
        "",
        "",
        "class RecordKind(enum.IntEnum):",
        *(f"    {name} = {number}" for name, number, _ in contract.kinds),
        "",
        "",
        "class key:",
        '    """Keys of payloads, by object in shims/contract/payloads.def."""',
        "",
        *(f'    {name} = "{name}"' for name in contract.keys),
        "",
        "",
        "class word:",
        '    """Words that stand for one of several things, by set."""',
    ]
    for group, words in contract.words.items():
        lines += ["", f"    class {group}:"]
        lines += [f'        {name}: Final = "{text}"' for name, text, _ in words]
    return "\n".join(lines) + "\n"


def _header_format(header: str) -> str:
    letters = {"uint32_t": "I", "uint16_t": "H", "uint64_t": "Q"}
    body = header[header.index("struct kerncap_record_header {") :]
    return "<" + "".join(letters[kind] for kind in re.findall(r"^  (uint\d+_t) \w+;", body, re.MULTILINE))


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def python_module(contract: Contract) -> str:
    """For the hook and for kerncap: names, words as types, options with defaults, the shims' functions."""
    literals = [
        f"{_camel(group)} = Literal[{', '.join(_literal(text) for _, text, _ in words)}]"
        for group, words in contract.words.items()
    ]
    defaults = [
        f"    {one.name}: {OPTION_TYPES[one.type][0]} = {_literal(one.default)}" for one in contract.options
    ]
    lines = [
        '"""The session\'s contract.\n',
        'Written by tools/contract.py from shims/contract: edit that instead.\n"""\n',
        "# ruff: noqa: E501",
        "# fmt: off",
        "from __future__ import annotations\n",
        "import enum\nimport struct",
        "from typing import Any, Final, List, Literal, Optional, Tuple\n",
        _python_names(contract),
        "",
        *literals,
        "",
        "",
        "class default:",
        '    """Of the options of session.json."""',
        "",
        *defaults,
        "",
        "",
        "class Options(default):",
        '    """session.json. Raises ValueError if the file is not one."""',
        "",
        "    def __init__(self, data: Any) -> None:",
        "        for group, names in _GROUPS:",
        '            part = data.get(group) if group != "session" and isinstance(data, dict) else data',
        "            if not isinstance(part, dict):",
        '                raise ValueError("not the options of a session")',
        "            for name in names:",
        "                if name in part:",
        "                    setattr(self, name, part[name])",
        "",
        "",
        "_GROUPS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (",
    ]
    for group in ("selection", "keep", "session"):
        names = ", ".join(f'"{one.name}"' for one in contract.options if one.group == group)
        lines.append(f'    ("{group}", ({names},)),')
    lines += [
        ")",
        "",
        "",
        "class Functions:",
        '    """kerncap_<vendor>_<name> of a native shim in this process; None for what it lacks."""',
        "",
        "    def __init__(self, library: Any, vendor: str) -> None:",
        "        import ctypes  # not by kerncap, which reads this file too",
        "",
        "        def function(name: str, result: Any, *parameters: Any) -> Any:",
        '            found = getattr(library, f"kerncap_{vendor}_{name}", None)',
        "            if found is not None:",
        "                found.restype, found.argtypes = result, parameters",
        "            return found",
        "",
    ]
    for one in contract.functions:
        types = ", ".join(C_TYPES[kind] for kind in (one.result, *(kind for kind, _ in one.parameters)))
        lines.append(f'        self.{one.name} = function("{one.name}", {types})')
    return "\n".join([*lines, ""])


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


# --- the page ----------------------------------------------------------------------------------------


def page(contract: Contract, text: str) -> str:
    """docs/session.md with its tables written again between their marks."""

    def table(match: re.Match[str]) -> str:
        names = match[1].split()
        return f"<!-- contract: {match[1]} -->\n{_tables(contract, names)}<!-- end -->"

    return re.sub(r"<!-- contract: ([^>]*?) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def _tables(contract: Contract, names: list[str]) -> str:
    if names == ["kinds"]:
        return _table(("Record", "Written"), [(name, comment) for name, _, comment in contract.kinds])
    if names == ["words"]:
        return _table(("Set", "Words"), [(_camel(s), _words(words)) for s, words in contract.words.items()])
    if names == ["functions"]:
        return _table(
            ("Function", "Meaning"), [(f"`{f.declaration}`", f.comment) for f in contract.functions]
        )
    if names[0] == "options":
        rows = [
            (f"`{one.name}`", OPTION_TYPES[one.type][1], f"`{_json(one.default)}`", one.comment)
            for one in contract.options
            if one.group == names[1]
        ]
        return _table(("Key", "Type", "Default", "Meaning"), rows)
    return "\n".join(
        f"**{name}**\n\n" + _table(("Key", "Type", "Meaning"), [
            (f"`{one.name}`", one.type.replace("|", " or "), one.comment) for one in contract.objects[name]
        ])
        for name in names
    )  # fmt: skip


def _words(words: list[tuple[str, str, str]]) -> str:
    return ", ".join(f"`{text}`" + (f" ({comment})" if comment else "") for _, text, comment in words)


def _json(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else _literal(value)


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return (
        "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
        + "\n"
    )


def main() -> int:
    contract = Contract.read()
    wanted = {MIRROR: python_module(contract), PAGE: page(contract, PAGE.read_text(encoding="utf-8"))}
    stale = [
        path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        name = path.relative_to(ROOT)
        if "--check" in sys.argv[1:]:
            print(f"{name}: not what shims/contract says; run python tools/contract.py", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"{name}: written")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
