"""The driver's numbers and bytes in a reproducer, which are read without the driver, against its own."""

from __future__ import annotations

import ctypes

import pytest

from kerncap.api.export import launch_header
from kerncap.format import textures

driver = pytest.importorskip("cuda.bindings.driver")


def test_formats_have_their_names_and_bytes() -> None:
    called = {
        "uint8": "UNSIGNED_INT8", "uint16": "UNSIGNED_INT16", "uint32": "UNSIGNED_INT32",
        "int8": "SIGNED_INT8",
        "int16": "SIGNED_INT16", "int32": "SIGNED_INT32", "float16": "HALF", "float32": "FLOAT",
    }  # fmt: skip
    for number, name in textures._FORMATS.items():
        assert driver.CUarray_format(number).name == f"CU_AD_FORMAT_{called[name]}"
    bits = {"INT8": 1, "INT16": 2, "INT32": 4, "HALF": 2, "FLOAT": 4}
    for number, size in textures._CHANNEL_BYTES.items():
        kind = driver.CUarray_format(number).name.removeprefix("CU_AD_FORMAT_").split("_")[-1]
        assert bits[kind.partition("X")[0]] == size, kind


def test_flags_and_modes_are_the_drivers() -> None:
    assert (driver.CUDA_ARRAY3D_LAYERED, driver.CUDA_ARRAY3D_CUBEMAP) == (textures.LAYERED, textures.CUBEMAP)
    names = [mode.name.rpartition("_")[2].lower() for mode in sorted(driver.CUaddress_mode)]
    assert names == list(textures._ADDRESS_MODES)
    flags = {driver.CU_TRSF_READ_AS_INTEGER, driver.CU_TRSF_NORMALIZED_COORDINATES, driver.CU_TRSF_SRGB}
    assert flags == set(textures._FLAGS)


def test_a_sampler_is_read_from_its_bytes() -> None:
    sampler = driver.CUDA_TEXTURE_DESC()
    clamp, border = (getattr(driver.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{n}") for n in ("CLAMP", "BORDER"))
    sampler.addressMode = [clamp, border, clamp]
    sampler.filterMode = driver.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    sampler.flags = driver.CU_TRSF_NORMALIZED_COORDINATES
    data = ctypes.string_at(sampler.getPtr(), 104)
    assert textures.sampler_text(data.hex()) == "clamp/border, linear, normalized coordinates"


def test_a_project_keeps_these_attributes() -> None:
    names = [
        driver.CUlaunchAttributeID(number).name.removeprefix("CU_LAUNCH_ATTRIBUTE_")
        for number in launch_header._KEPT_ATTRIBUTES
    ]
    assert names == [
        "COOPERATIVE", "CLUSTER_DIMENSION", "CLUSTER_SCHEDULING_POLICY_PREFERENCE", "MEM_SYNC_DOMAIN_MAP",
        "MEM_SYNC_DOMAIN", "PREFERRED_CLUSTER_DIMENSION", "PREFERRED_SHARED_MEMORY_CARVEOUT",
        "NVLINK_UTIL_CENTRIC_SCHEDULING", "PORTABLE_CLUSTER_SIZE_MODE", "SHARED_MEMORY_MODE",
    ]  # fmt: skip
