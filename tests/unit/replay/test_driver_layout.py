"""The driver's structures and numbers, as ctypes has them, against cuda.h (Triton ships one)."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kerncap.replay.worker.cuda import driver, limits, textures

_STRUCTURES = {
    "CUmemAllocationProp": (driver.MemAllocationProp, {
        "type": "type", "requestedHandleTypes": "requested_handle_types", "location": "location",
        "win32HandleMetaData": "win32_handle_meta_data", "allocFlags": "flags"}),
    "CUmemAccessDesc": (driver.MemAccessDesc, {"location": "location", "flags": "flags"}),
    "CUlaunchAttribute": (driver.LaunchAttribute, {"id": "id", "value": "value"}),
    "CUlaunchConfig": (driver.LaunchConfig, {
        "gridDimX": "grid", "blockDimX": "block", "sharedMemBytes": "shared_bytes", "hStream": "stream",
        "attrs": "attributes", "numAttrs": "attribute_count"}),
    "CUDA_ARRAY3D_DESCRIPTOR": (textures.ArrayDescriptor, {
        "Width": "width", "Height": "height", "Depth": "depth", "Format": "format", "NumChannels": "channels",
        "Flags": "flags"}),
    "CUDA_RESOURCE_DESC": (textures.ResourceDescriptor, {
        "resType": "type", "res": "words", "flags": "flags"}),
    "CUDA_MEMCPY3D": (textures.Copy3D, {
        "srcXInBytes": "source", "dstXInBytes": "target", "WidthInBytes": "width_bytes", "Height": "height",
        "Depth": "depth"}),
}  # fmt: skip
# Members of a structure within one, at the place that `textures` gives them.
_SIDE = textures.Copy3D.target.offset
_WORDS = textures.ResourceDescriptor.words.offset
_WITHIN = {
    "dstMemoryType": ("CUDA_MEMCPY3D", _SIDE + textures.Side.memory_type.offset),
    "dstDevice": ("CUDA_MEMCPY3D", _SIDE + textures.Side.device.offset),
    "dstArray": ("CUDA_MEMCPY3D", _SIDE + textures.Side.array.offset),
    "dstPitch": ("CUDA_MEMCPY3D", _SIDE + textures.Side.pitch.offset),
    "dstHeight": ("CUDA_MEMCPY3D", _SIDE + textures.Side.height.offset),
    "res.array.hArray": ("CUDA_RESOURCE_DESC", _WORDS),
    "res.linear.format": ("CUDA_RESOURCE_DESC", _WORDS + 8),
    "res.linear.numChannels": ("CUDA_RESOURCE_DESC", _WORDS + 12),
    "res.linear.sizeInBytes": ("CUDA_RESOURCE_DESC", _WORDS + 16),
    "res.pitch2D.width": ("CUDA_RESOURCE_DESC", _WORDS + 16),
    "res.pitch2D.height": ("CUDA_RESOURCE_DESC", _WORDS + 24),
    "res.pitch2D.pitchInBytes": ("CUDA_RESOURCE_DESC", _WORDS + 32),
}
_NUMBERS = {
    "CU_LAUNCH_ATTRIBUTE_COOPERATIVE": driver.ATTRIBUTE_COOPERATIVE,
    "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION": driver.ATTRIBUTE_CLUSTER_DIMENSION,
    "CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE": driver.ATTRIBUTE_CLUSTER_SCHEDULING,
    "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": (
        driver.ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    ),
    "CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP": driver.ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
    "CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN": driver.ATTRIBUTE_MEM_SYNC_DOMAIN,
    "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": driver.DEVICE_L2_CACHE_SIZE,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": driver.DEVICE_COMPUTE_CAPABILITY_MAJOR,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": driver.DEVICE_COMPUTE_CAPABILITY_MINOR,
    "CU_MEMHOSTREGISTER_PORTABLE": driver.MEM_HOST_REGISTER_PORTABLE,
    "CU_MEMHOSTREGISTER_DEVICEMAP": driver.MEM_HOST_REGISTER_DEVICE_MAP,
    "CU_STREAM_NON_BLOCKING": driver.STREAM_NON_BLOCKING,
    "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": driver.STREAM_CAPTURE_MODE_THREAD_LOCAL,
    "CU_JIT_ERROR_LOG_BUFFER": driver.JIT_ERROR_LOG_BUFFER,
    "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": driver.JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    "CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT": driver.LAUNCH_PARAM_BUFFER_POINTER,
    "CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT": driver.LAUNCH_PARAM_BUFFER_SIZE,
    "CU_LIMIT_STACK_SIZE": limits.LIMITS["stack_bytes"][0],
    "CU_LIMIT_PRINTF_FIFO_SIZE": limits.LIMITS["print_bytes"][0],
    "CU_LIMIT_MALLOC_HEAP_SIZE": limits.LIMITS["heap_bytes"][0],
    "CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT": limits.LIMITS["pending_launches"][0],
    "CUDA_ERROR_OUT_OF_MEMORY": driver.ERROR_OUT_OF_MEMORY,
    "CUDA_ERROR_NO_DEVICE": driver.ERROR_NO_DEVICE,
    "CUDA_ERROR_NOT_READY": driver.ERROR_NOT_READY,
    "CU_CLUSTER_SCHEDULING_POLICY_SPREAD": driver.CLUSTER_SCHEDULING_SPREAD,
    "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": driver.FUNC_MAX_THREADS_PER_BLOCK,
    "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES": driver.FUNC_LOCAL_SIZE_BYTES,
    "CU_FUNC_ATTRIBUTE_NUM_REGS": driver.FUNC_NUM_REGS,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": driver.DEVICE_MULTIPROCESSOR_COUNT,
    "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR": driver.DEVICE_MAX_THREADS_PER_MULTIPROCESSOR,
    "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": driver.FUNC_SHARED_SIZE_BYTES,
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": driver.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED": driver.FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    "CU_FUNC_CACHE_PREFER_SHARED": driver.FUNC_CACHE_PREFER_SHARED,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": driver.DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    "CU_MEM_ALLOCATION_TYPE_PINNED": driver.MEM_ALLOCATION_TYPE_PINNED,
    "CU_MEM_LOCATION_TYPE_DEVICE": driver.MEM_LOCATION_TYPE_DEVICE,
    "CU_MEM_ACCESS_FLAGS_PROT_READWRITE": driver.MEM_ACCESS_READWRITE,
}


def _header() -> Path | None:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    return folder if (folder / "cuda.h").is_file() else None


def test_layouts_and_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    folder, compiler = _header(), shutil.which("cc") or shutil.which("gcc")
    if folder is None or compiler is None:
        pytest.skip("needs a C compiler and Triton's cuda.h")
    lines = []
    expected = {}
    for name, (structure, fields) in _STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected[name] = ctypes.sizeof(structure)
        for theirs, ours in fields.items():
            lines.append(f'printf("{name}.{theirs} %zu\\n", offsetof({name}, {theirs}));')
            expected[f"{name}.{theirs}"] = getattr(structure, ours).offset
    for name, number in _NUMBERS.items():
        lines.append(f'printf("{name} %d\\n", (int){name});')
        expected[name] = number
    for theirs, (type_, offset) in _WITHIN.items():
        lines.append(f'printf("{theirs} %zu\\n", offsetof({type_}, {theirs}));')
        expected[theirs] = offset
    for name, size in (
        ("CUDA_TEXTURE_DESC", 104),
        ("CUDA_RESOURCE_VIEW_DESC", 112),
    ):  # as the format has them
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected[name] = size
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {"
        + "\n".join(lines)
        + "return 0;}"
    )
    subprocess.run([compiler, f"-I{folder}", str(source), "-o", str(tmp_path / "layout")], check=True)
    printed = subprocess.run([str(tmp_path / "layout")], check=True, capture_output=True, text=True).stdout
    assert {
        name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", printed, re.MULTILINE)
    } == expected
