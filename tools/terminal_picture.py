"""terminal_picture.py FILE.svg: the commands of README.md's "60 seconds", run here, as a picture."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
LINES = 6  # of a command's output; the last ones say what it found
# rich's own has fonts from a host; a picture in a README can load nothing.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, "DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def commands() -> list[str]:
    section = (ROOT / "README.md").read_text().split("## 60 seconds")[1].split("\n## ")[0]
    return re.findall(r"^\$ (kerncap .+)$", section, re.MULTILINE)


def run(command: str, folder: Path, made: str) -> str:
    words = re.sub(r"kerncap-out/\S+", made, command)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "TRITON_INTERPRET": "1",
        "NO_COLOR": "1",
        "COLUMNS": str(WIDTH),
    }
    done = subprocess.run(
        words,
        shell=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return f"$ {words}\n{done.stdout}"


def main(target: Path) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "samples").symlink_to(ROOT / "samples")
        made = ""
        for command in commands():
            shown, *lines = run(command, Path(folder), made).rstrip("\n").split("\n")
            made = next((f"kerncap-out/{p.name}" for p in Path(folder).glob("kerncap-out/*")), made)
            console.print(Text(shown, style="bold"))
            for line in lines[-LINES:]:
                style = {"Result: PASS": "green", "Result: FAIL": "red"}.get(line[:12], "")
                console.print(Text(line, style=style), soft_wrap=False)
            console.print()
    target.write_text(
        console.export_svg(title="kerncap", code_format=FORMAT, unique_id="terminal"), encoding="utf-8"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(str(__doc__).splitlines()[0])
    main(Path(sys.argv[1]))
