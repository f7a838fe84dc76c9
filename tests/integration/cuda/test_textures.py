"""Textures and surfaces: found wherever a kernel is given them, and made again under their numbers."""

from __future__ import annotations

from pathlib import Path

from tests.parameters import first_of

from .conftest import Bench

KINDS = {
    "1d": "16 float32x1", "2d": "16x8 float32x1", "3d": "16x8x6 float32x1",
    "layered": "layered 16x8x6 float32x1", "layered1d": "layered 16x6 float32x1",
    "cubemap": "cubemap 16x16x6 float32x1", "mipmapped": "16x8 float32x1, 3 levels",
    "linear": "64 bytes at", "pitch2d": "16x8 float32x1",
}  # fmt: skip


@first_of("kind", ["mipmapped", *(kind for kind in KINDS if kind != "mipmapped")])
def test_each_kind_of_resource(bench: Bench, kind: str) -> None:
    captured = bench.capture("-k", "gather", client=("textures", kind))
    launch = captured.manifest().launch
    assert [texture.kind for texture in launch.textures][:1] == ["texture"]
    assert KINDS[kind] in bench("inspect", captured.path).stdout
    bench.passes(captured.path)


@first_of("way", ["value", "constant", "bindless"])
def test_each_way_to_give_a_kernel_its_objects(bench: Bench, way: str) -> None:
    captured = bench.capture("-k", "gather", client=("textures", "2d", way, "others"), self_check=True)
    [check] = captured.document["self_checks"].values()
    assert check["result"] == "pass", check
    manifest = captured.manifest()
    reasons = {texture.reason.split(" from ")[0] for texture in manifest.launch.textures}
    assert {texture.handle for texture in manifest.launch.textures} == {1, 5}  # others have come before it
    expected = {"value": {"parameter 0", "parameter 0 at byte 8"}}.get(way, {"reached"})
    assert reasons == expected
    arrays = [region for region in manifest.regions if region.kind == "array"]
    assert [region.size for region in arrays] == [16 * 8 * 4] * 2


def gather(folder: Path, edition: int) -> Path:
    """A candidate; edition 1 leaves the surface alone."""
    path = folder / f"edition{edition}.ptx"
    sizes = ", .param .u32 ".join(["", "width", "height", "depth", "levels"])
    path.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        f".visible .global .align 4 .u32 rig_variant = {edition};\n"
        ".visible .entry _Z6gatheryyPfiiii(\n"
        f" .param .u64 texture, .param .u64 surface, .param .u64 out{sizes})\n{{\n ret;\n}}\n"
    )
    return path


def test_what_a_kernel_writes_to_a_surface_is_compared(bench: Bench) -> None:
    captured = bench.capture("-k", "gather", client=("textures", "3d"))
    [wrong, right] = [gather(bench.kerncap.folder, edition) for edition in (1, 0)]
    bench.passes(captured.path, "--candidate", right)
    document = bench.judge(captured.path, "--candidate", wrong)
    assert document["result"] == "fail", document
    # Replays in a row restore arrays too.
    document = bench.judge(captured.path, "--until-fail", "50", command="replay")
    assert document["result"] == "pass", document


def test_other_numbers_are_refused_by_name(bench: Bench) -> None:
    captured = bench.capture("-k", "gather", client=("textures", "2d"))
    done = bench("verify", captured.path, extra={"KERNCAP_RIG_FIRST_OBJECT": "100"})
    assert done.status == 4, done.stdout + done.stderr
    assert "object 1 can't have its number here" in done.stdout + done.stderr


def test_an_array_of_compressed_blocks_is_refused_by_name(bench: Bench) -> None:
    captured = bench.capture("-k", "gather", client=("textures", "compressed"), expect=0)
    assert "parameter 0 may be texture object 1, which a reproducer can't hold" in captured.reason
