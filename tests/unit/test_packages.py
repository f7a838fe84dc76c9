"""What packagers take: the recipe for conda-forge, rendered and built by rattler-build; the Containerfile."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import kerncap
from tests.unit.test_dependencies import tomllib
from tests.unit.test_project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("sdist")
    code = f"import scikit_build_core.build as b; b.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    return folder / f"kerncap-{kerncap.__version__}.tar.gz"


@pytest.fixture(scope="module")
def recipe(sdist: Path) -> dict[str, Any]:
    url = f"https://downloads.example/kerncap/{sdist.name}"
    script = [sys.executable, ROOT / "tools/conda_recipe.py", sdist, url]
    made = subprocess.run(script, check=True, capture_output=True)
    document: dict[str, Any] = json.loads(made.stdout)
    return document


def names(requirements: list[Any]) -> set[str]:
    return {str(one).split()[0] for one in requirements}


@pytest.mark.parametrize(
    ("platform", "cuda"), [("linux-64", "x86_64-linux"), ("linux-aarch64", "sbsa-linux")]
)
def test_it_is_rendered_for_each_machine(
    recipe: dict[str, Any], sdist: Path, platform: str, cuda: str
) -> None:
    rattler = pytest.importorskip("rattler_build")
    parsed = rattler.Stage0Recipe.from_dict(recipe)
    variants = rattler.VariantConfig.from_yaml("python: ['3.10.*', '3.13.*']\nc_stdlib: [sysroot]\n")
    platforms = rattler.PlatformConfig(target_platform=platform)
    old, new = (one.recipe.to_dict() for one in parsed.render(variants, rattler.RenderConfig(platforms)))
    assert new["package"] == {"name": "kerncap", "version": kerncap.__version__}
    assert hashlib.sha256(sdist.read_bytes()).hexdigest() in json.dumps(new["source"])
    assert f"https://downloads.example/kerncap/{sdist.name}" in json.dumps(new["source"])
    assert f"CUDA_HOME=$PREFIX/targets/{cuda}" in json.dumps(new["build"])
    own = {one.split(">")[0] for one in PROJECT["dependencies"]}
    assert names(old["requirements"]["run"]) == {"python", *own}
    assert names(new["requirements"]["run"]) == {"python", *own} - {"tomli"}
    assert new["about"]["license"] == "Apache-2.0"
    tests = json.dumps(new["tests"])
    assert "libkerncap_cuda.so" in tests and ("libkerncap_hip.so" in tests) == (platform == "linux-64")


@pytest.mark.long
def test_its_script_makes_a_package(recipe: dict[str, Any], sdist: Path, tmp_path: Path) -> None:
    """With this environment's packages for those of conda-forge; the shims would take minutes."""
    rattler = pytest.importorskip("rattler_build")
    pytest.importorskip("pip")
    install = recipe["build"]["script"][-1].replace("$PYTHON", sys.executable)
    script = ["export KERNCAP_NO_SHIM=1", f"{install} --prefix $PREFIX"]
    here = {**recipe, "source": {"path": str(sdist)}, "build": {"script": script}, "requirements": {}}
    (tmp_path / "recipe.yaml").write_text(json.dumps({**here, "tests": []}))
    parsed = rattler.Stage0Recipe.from_file(tmp_path / "recipe.yaml")
    parsed.run_build(output_dir=tmp_path / "out", channels=[])
    (package,) = (tmp_path / "out").rglob(f"kerncap-{kerncap.__version__}-*.conda")
    files = [str(one) for one in rattler.Package.from_file(package).files]
    for name in (
        "site-packages/kerncap/__init__.py",
        "site-packages/kerncap/replay/choose_engine.py",
        "bin/kerncap",
    ):
        assert any(one.endswith(name) for one in files), name


def test_the_container_file_takes_the_wheel_that_is_made() -> None:
    text = (ROOT / "Containerfile").read_text()
    made = f"dist/kerncap-{kerncap.__version__}-py3-none-manylinux_2_28_x86_64.whl"
    assert "tag=py3-none-manylinux_2_28_$machine" in (ROOT / "tools/wheels.sh").read_text()
    (copied,) = re.findall(r"^COPY (\S+) ", text, re.MULTILINE)
    assert fnmatch(made, copied)
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
