"""More than one process, more than one device, other environments."""

from __future__ import annotations

import os

import pytest

from tests.integration.cuda.conftest import Bench


def test_fork_and_both_launch(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", client=("processes", "fork"), expect=2)
    for path in captured.paths:
        bench.passes(path)


@pytest.mark.long
def test_fork_after_the_driver_was_used(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", client=("processes", "late"))
    assert captured.plain.status == 0
    bench.passes(captured.path)


@pytest.mark.long
def test_spawn(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", client=("processes", "spawn"), expect=2)
    for path in captured.paths:
        bench.passes(path)


@pytest.mark.long
def test_a_kernel_on_the_second_device(bench: Bench) -> None:
    two = {"KERNCAP_RIG_DEVICES": "2"}
    captured = bench.capture("-k", "scale_in_place", "--where", "device == 1", client=("devices",), extra=two)
    manifest = captured.manifest()
    assert manifest.device.ordinal == 1
    assert {region.device for region in manifest.regions if region.kind == "device"} == {1}
    bench.passes(captured.path, extra=two)


@pytest.mark.long
def test_a_created_context(bench: Bench) -> None:
    two = {"KERNCAP_RIG_DEVICES": "2"}
    captured = bench.capture("-k", "vector_add", client=("devices",), extra=two)
    bench.passes(captured.path, extra=two)


@pytest.mark.long
def test_another_preload_stays(bench: Bench) -> None:
    preload = str(bench.rig.folder / "clients" / "librig_test_kernels.so")
    captured = bench.capture(
        "-k", "vector_add", client=("vector_add",), extra={"LD_PRELOAD": preload, "KERNCAP_RIG_KERNELS": ""}
    )
    bench.passes(captured.path)


@pytest.mark.parametrize("options", [("--backend", "triton")])
def test_without_the_shim_nothing_is_hooked(bench: Bench, options: tuple[str, ...]) -> None:
    captured = bench.capture(*options, client=("vector_add",), expect=0)
    assert captured.done.status == 1 and captured.reason


def test_a_program_under_no_capture_pays_nothing(bench: Bench, shim: os.PathLike[str]) -> None:
    plain = bench.rig.run("vector_add")
    preloaded = bench.rig.run("vector_add", extra={"LD_PRELOAD": os.fspath(shim)})
    assert preloaded == plain
