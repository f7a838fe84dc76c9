"""Words that user-visible text does without: ``words.py`` lists each place, ``words.py --count`` the numbers.

Looked at: the pages at the top and docs/ without their code and without dated decisions; every string
with a space in it in kerncap/, replay/, sanitizer/ and shims/; docstrings that are printed (click commands,
documents of ``--json``). docs/writing.md says what to write instead. If a word is right somewhere, that place
is in ALLOWED, with the words around it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# a word's name -> (what finds it, what to write instead)
WORDS: dict[str, tuple[str, str]] = {
    "anew": (r"\banew\b", "again, or a verb with re-"),
    "be had": (r"\b(?:be|to be|is to be) had\b", "is unavailable, can't be obtained"),
    "is none": (r"\b(?:is|are|was) none\b(?! of)", "there is no ..., or name what it is not"),
    "held against": (r"\b(?:hold|holds|held|holding)\b[^.;:]{0,40}\bagainst\b", "compare"),
    "told": (r"\btold\b", "reported, or told apart: distinguished"),
    "whoever": (r"\bwho(?:m)?ever\b", "the recipient, the caller, anyone who"),
    "whatever": (r"\bwhatever\b", "name the thing, or any"),
    "stands": (r"\bstands?\b(?!-| in for)", "is"),
    "lies": (r"\blies?\b|\blay\b|\blain\b", "is, is at, is in"),
    "where (if)": (
        r"(?:^|[.;(|] ?)Where (?!from\b|to\b)[^.?|]*,"
        r"|\bwhere (?:there|nobody|no|none|neither|both|that is|this is|one is"
        r"|it (?:can|has|does)|they (?:can|have|do))\b",
        "if, when",
    ),
    "alone (only)": (
        r"(?<!\brun )(?<!\bruns )(?<!\bran )(?<!\bleave )(?<!\bleft )(?<!\blet )\balone\b",
        "only; for 'by itself': run alone, left alone",
    ),
    "of its own": (r"\bof (?:its|their|one's) own\b", "its own ..., separate"),
    "beside": (r"\bbeside\b", "next to, with"),
    "nobody": (r"\b(?:nobody|somebody)\b", "no one, someone; or say who"),
    "inside of": (r"\binside of\b", "inside, in"),
    "as far as": (r"\bas far as\b", "if, as much as"),
    "is no": (
        r"(?<!\b[Tt]here )\b(?:is|are|was|were) no (?!longer\b|(?:more|less|fewer) than\b)",
        "is not a",
    ),
}
# (file, the words that are right there)
ALLOWED: dict[str, tuple[str, ...]] = {
    "docs/reference/cli.md": ("the answer is no |",),  # yes, no or undecided
    "kerncap/format/private/people.py": ("main nobody public",),  # names of accounts
    "kerncap/report/documents/diff.py": ("told: identifies the run",),  # a value of the document
    "shims/common/arm.cpp": ("is read as it lies there",),  # a static_assert: seen by who builds it
}
_FIND = re.compile("|".join(f"(?P<w{number}>{find})" for number, (find, _) in enumerate(WORDS.values())))
_NAMES = list(WORDS)
_CPP = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def main() -> int:
    found = [each for path, line, text in _texts() for each in _in(path, line, text)]
    if "--count" in sys.argv[1:]:
        counts = Counter(name for _, _, name, _ in found)
        for name in WORDS:
            print(f"{counts[name]:5d}  {name}")
        print(f"{len(found):5d}  in all")
        return 0
    for path, line, name, said in found:
        print(f"{path}:{line}: {name}: {said!r}; write: {WORDS[name][1]}")
    return 1 if found else 0


def _in(path: str, line: int, text: str) -> Iterator[tuple[str, int, str, str]]:
    for match in _FIND.finditer(text):
        said = " ".join(text[max(0, match.start() - 30) : match.end() + 30].split())
        if any(right in said for right in ALLOWED.get(path, ())):
            continue
        name = _NAMES[int(str(match.lastgroup)[1:])]
        yield path, line + text.count("\n", 0, match.start()), name, said


def _texts() -> Iterator[tuple[str, int, str]]:
    """Every user-visible text with its file and first line."""
    at_the_top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "RELEASING")]
    pages = [*at_the_top, *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        if page.name == "writing.md" or re.match(r"\d{4}-", page.name):
            continue  # the former shows these words; a dated decision is not rewritten
        yield from ((_name(page), line, text) for line, text in _prose(page.read_text(encoding="utf-8")))
    for top in ("kerncap", "replay", "sanitizer", "shims"):
        for file in sorted((ROOT / top).rglob("*.py")):
            if not any(parent.is_symlink() for parent in file.parents):
                yield from (
                    (_name(file), line, text) for line, text in _strings(file.read_text(encoding="utf-8"))
                )
    for file in sorted(each for end in ("*.cpp", "*.h", "*.def") for each in (ROOT / "shims").rglob(end)):
        for number, code in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            code = code.split("//")[0]
            yield from ((_name(file), number, match[1]) for match in _CPP.finditer(code) if " " in match[1])


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page without fenced blocks and without `code`."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r" *(`{3,})", line)
        if mark is not None and fence in (None, mark[1]):
            fence = None if fence else mark[1]
        elif fence is None:
            yield number, re.sub(r"`[^`]*`", "`", line)


def _strings(text: str) -> Iterator[tuple[int, str]]:
    """Strings with a space in them; docstrings only if they are printed, of modules what they begin with."""
    tree = ast.parse(text)
    lead = (ast.get_docstring(tree) or "").split("\n\n")[0]
    yield 1, lead[:1].lower() + lead[1:]  # "Where a kernel is defined" is a place
    quiet = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and not _is_printed(node)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and id(node) not in quiet
        ):
            yield node.lineno, node.value


def _is_printed(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(isinstance(base, ast.Name) and base.id in _DOCUMENTS for base in node.bases)
    decorators = getattr(node, "decorator_list", ())
    return any(".command" in ast.unparse(each) or ".group" in ast.unparse(each) for each in decorators)


_DOCUMENTS = {"Document", "Part"}


if __name__ == "__main__":
    sys.exit(main())
