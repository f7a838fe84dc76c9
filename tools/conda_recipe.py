"""conda_recipe.py SDIST URL: the recipe of that release for conda-forge (recipe.yaml, format 1), on stdout.

URL is where the sdist is published.
Dependencies and descriptions are those of pyproject.toml, so that a feedstock has no list of its own.
It is JSON, which is YAML: `rattler-build build -r recipe.yaml -c conda-forge`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PYTHON_MARKER = re.compile(r"python_version ([<>=]+) '([\d.]+)'")
# Where conda-forge's cuda-cudart-dev has cuda.h, by machine.
CUDA = "export CUDA_HOME=$PREFIX/targets/{}-linux"

# ROCm is for x86_64 only, and so is the shim for HIP.
SHIMS = [
    "kerncap/shims/cuda/libkerncap_cuda.so",
    {"if": "x86_64", "then": ["kerncap/shims/hip/libkerncap_hip.so"]},
]


def recipe(sdist: Path, url: str) -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, version = sdist.name.removesuffix(".tar.gz").split("-")
    needed = project["requires-python"]
    return {
        "schema_version": 1,
        "context": {"version": version},
        "package": {"name": name, "version": "${{ version }}"},
        "source": {
            "url": url.replace(version, "${{ version }}"),
            "sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        },
        "build": {
            "number": 0,
            "skip": ["not linux"],
            "script": [
                {"if": "aarch64", "then": [CUDA.format("sbsa")], "else": [CUDA.format("x86_64")]},
                "$PYTHON -m pip install . -vv --no-deps --no-build-isolation",
            ],
        },
        "requirements": {
            "build": ["${{ compiler('cxx') }}", "${{ stdlib('c') }}", "cmake", "ninja"],
            # Of CUDA, a header; nothing is linked, and the same shim serves every driver.
            "host": ["python", "pip", "scikit-build-core >=1.0", "cuda-version 13.*", "cuda-cudart-dev"],
            "ignore_run_exports": {"from_package": ["cuda-cudart-dev", "cuda-version"]},
            "run": [f"python {needed}", *map(_requirement, project["dependencies"])],
        },
        "tests": [
            {"python": {"imports": ["kerncap", "kerncap.replay", "kerncap.sanitizer"], "pip_check": True}},
            {"script": ["kerncap --version", "kerncap schema verify", "kerncap view -o viewer.html"]},
            {"package_contents": {"site_packages": SHIMS}},
        ],
        "about": {
            "summary": project["description"],
            "license": project["license"],
            "license_file": project["license-files"],
        },
    }  # fmt: skip


def _requirement(text: str) -> Any:
    """A requirement of pip's as conda writes it."""
    what, _, marker = map(str.strip, text.partition(";"))
    spec = re.sub(r"^([\w-]+)", r"\1 ", what)
    if not marker:
        return spec
    python = PYTHON_MARKER.fullmatch(marker)
    if python is None:
        raise SystemExit(f"pyproject.toml: {text!r} has a marker that this script does not know")
    return {"if": f'match(python, "{python[1]}{python[2]}")', "then": [spec]}


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].endswith(".tar.gz"):
        sys.exit(str(__doc__).splitlines()[0])
    print(json.dumps(recipe(Path(sys.argv[1]), sys.argv[2]), indent=2))
