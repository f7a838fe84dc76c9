"""ROCr's structures and numbers, as ctypes has them, against its headers, where these are installed."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kerncap.replay.worker.hip import hsa

_RIG = Path(__file__).parents[3] / "build" / "amd-gpu" / "include"
_FOLDERS = (_RIG, Path("/opt/rocm/include"), Path("/usr/include"))
_STRUCTURES = {
    "hsa_kernel_dispatch_packet_t": (hsa.DispatchPacket, {
        "header": "header", "setup": "setup", "workgroup_size_x": "workgroup", "grid_size_x": "work_items",
        "private_segment_size": "private_bytes", "group_segment_size": "group_bytes",
        "kernel_object": "kernel_object", "kernarg_address": "kernarg_address",
        "completion_signal": "completion_signal"}),
    "hsa_queue_t": (hsa.Queue, {
        "type": "type", "features": "features", "base_address": "base_address",
        "doorbell_signal": "doorbell_signal", "size": "size", "id": "id"}),
    "hsa_amd_memory_access_desc_t": (hsa.AccessDesc, {"permissions": "permissions", "agent_handle": "agent"}),
    "hsa_amd_profiling_dispatch_time_t": (hsa.DispatchTime, {"start": "start", "end": "end"}),
    "hsa_amd_gpu_memory_fault_info_t": (hsa.MemoryFault, {
        "agent": "agent", "virtual_address": "virtual_address", "fault_reason_mask": "fault_reason_mask"}),
    "hsa_amd_event_t": (hsa.Event, {"event_type": "event_type", "memory_fault": "memory_fault"}),
}  # fmt: skip
_NUMBERS = {
    "HSA_STATUS_ERROR_OUT_OF_RESOURCES": hsa.ERROR_OUT_OF_RESOURCES,
    "HSA_STATUS_ERROR_INVALID_ALLOCATION": hsa.ERROR_INVALID_ALLOCATION,
    "HSA_SYSTEM_INFO_VERSION_MAJOR": hsa.SYSTEM_VERSION_MAJOR,
    "HSA_SYSTEM_INFO_VERSION_MINOR": hsa.SYSTEM_VERSION_MINOR,
    "HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY": hsa.SYSTEM_TIMESTAMP_FREQUENCY,
    "HSA_AMD_SYSTEM_INFO_BUILD_VERSION": hsa.SYSTEM_BUILD_VERSION,
    "HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED": hsa.SYSTEM_VIRTUAL_MEM_API_SUPPORTED,
    "HSA_AGENT_INFO_NAME": hsa.AGENT_NAME,
    "HSA_AGENT_INFO_WAVEFRONT_SIZE": hsa.AGENT_WAVEFRONT_SIZE,
    "HSA_AGENT_INFO_WORKGROUP_MAX_SIZE": hsa.AGENT_WORKGROUP_MAX_SIZE,
    "HSA_AGENT_INFO_DEVICE": hsa.AGENT_DEVICE,
    "HSA_AGENT_INFO_CACHE_SIZE": hsa.AGENT_CACHE_SIZE,
    "HSA_AMD_AGENT_INFO_PRODUCT_NAME": hsa.AGENT_PRODUCT_NAME,
    "HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT": hsa.AGENT_COMPUTE_UNITS,
    "HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU": hsa.AGENT_WAVES_PER_CU,
    "HSA_AMD_AGENT_INFO_MEMORY_AVAIL": hsa.AGENT_MEMORY_AVAIL,
    "HSA_DEVICE_TYPE_CPU": hsa.DEVICE_TYPE_CPU,
    "HSA_DEVICE_TYPE_GPU": hsa.DEVICE_TYPE_GPU,
    "HSA_AMD_MEMORY_POOL_INFO_SEGMENT": hsa.POOL_SEGMENT,
    "HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS": hsa.POOL_GLOBAL_FLAGS,
    "HSA_AMD_MEMORY_POOL_INFO_SIZE": hsa.POOL_SIZE,
    "HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE": hsa.POOL_ALLOC_GRANULE,
    "HSA_AMD_SEGMENT_GLOBAL": hsa.SEGMENT_GLOBAL,
    "HSA_AMD_SEGMENT_GROUP": hsa.SEGMENT_GROUP,
    "HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT": hsa.POOL_FLAG_KERNARG,
    "HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED": hsa.POOL_FLAG_COARSE_GRAINED,
    "HSA_ACCESS_PERMISSION_RW": hsa.ACCESS_PERMISSION_RW,
    "MEMORY_TYPE_NONE": hsa.MEMORY_TYPE_NONE,
    "HSA_PROFILE_FULL": hsa.PROFILE_FULL,
    "HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT": hsa.FLOAT_ROUNDING_DEFAULT,
    "HSA_SYMBOL_KIND_VARIABLE": hsa.SYMBOL_KIND_VARIABLE,
    "HSA_SYMBOL_KIND_KERNEL": hsa.SYMBOL_KIND_KERNEL,
    "HSA_EXECUTABLE_SYMBOL_INFO_TYPE": hsa.SYMBOL_TYPE,
    "HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH": hsa.SYMBOL_NAME_LENGTH,
    "HSA_EXECUTABLE_SYMBOL_INFO_NAME": hsa.SYMBOL_NAME,
    "HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE": hsa.SYMBOL_VARIABLE_SIZE,
    "HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS": hsa.SYMBOL_VARIABLE_ADDRESS,
    "HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT": hsa.SYMBOL_KERNEL_OBJECT,
    "HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE": hsa.SYMBOL_KERNARG_SIZE,
    "HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE": hsa.SYMBOL_GROUP_SIZE,
    "HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE": hsa.SYMBOL_PRIVATE_SIZE,
    "HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK": hsa.SYMBOL_DYNAMIC_CALLSTACK,
    "HSA_QUEUE_TYPE_MULTI": hsa.QUEUE_TYPE_MULTI,
    "HSA_SIGNAL_CONDITION_LT": hsa.SIGNAL_CONDITION_LT,
    "HSA_WAIT_STATE_BLOCKED": hsa.WAIT_STATE_BLOCKED,
    "HSA_WAIT_STATE_ACTIVE": hsa.WAIT_STATE_ACTIVE,
    "HSA_PACKET_TYPE_KERNEL_DISPATCH": hsa.PACKET_TYPE_KERNEL_DISPATCH,
    "HSA_PACKET_HEADER_BARRIER": hsa.PACKET_HEADER_BARRIER,
    "HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE": hsa.PACKET_HEADER_ACQUIRE_SCOPE,
    "HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE": hsa.PACKET_HEADER_RELEASE_SCOPE,
    "HSA_FENCE_SCOPE_SYSTEM": hsa.FENCE_SCOPE_SYSTEM,
    "HSA_AMD_GPU_MEMORY_FAULT_EVENT": hsa.EVENT_MEMORY_FAULT,
    "HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT": hsa.MEMORY_FAULT_PAGE_NOT_PRESENT,
    "HSA_AMD_MEMORY_FAULT_READ_ONLY": hsa.MEMORY_FAULT_READ_ONLY,
    "HSA_AMD_MEMORY_FAULT_HANG": hsa.MEMORY_FAULT_HANG,
}


def _with_vmem(folder: Path) -> bool:
    """Whether a folder has the headers of a ROCr that can place memory; older ones lack names."""
    header = folder / "hsa" / "hsa_ext_amd.h"
    return header.is_file() and "hsa_amd_vmem_address_reserve" in header.read_text()


def test_layouts_and_numbers_are_those_of_the_headers(tmp_path: Path) -> None:
    folder = next(filter(_with_vmem, _FOLDERS), None)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if folder is None or compiler is None:
        pytest.skip("needs a C compiler and the headers of ROCm 6.1 or newer (make amd-gpu)")
    lines, expected = [], {}
    for name, (structure, fields) in _STRUCTURES.items():
        lines.append(f'printf("{name} %llu\\n", (unsigned long long)sizeof({name}));')
        # Of the union in an event only the part of a memory fault is bound: the rest may be longer.
        expected[name] = ctypes.sizeof(structure)
        for theirs, ours in fields.items():
            lines.append(
                f'printf("{name}.{theirs} %llu\\n", (unsigned long long)offsetof({name}, {theirs}));'
            )
            expected[f"{name}.{theirs}"] = getattr(structure, ours).offset
    for name, number in _NUMBERS.items():
        lines.append(f'printf("{name} %llu\\n", (unsigned long long)(unsigned){name});')
        expected[name] = number
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <hsa/hsa.h>\n#include <hsa/hsa_ext_amd.h>\n#include <stddef.h>\n#include <stdio.h>\n"
        "int main(void) {" + "\n".join(lines) + "return 0;}"
    )
    subprocess.run([compiler, f"-I{folder}", str(source), "-o", str(tmp_path / "layout")], check=True)
    printed = subprocess.run([str(tmp_path / "layout")], check=True, capture_output=True, text=True).stdout
    found = {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", printed, re.MULTILINE)}
    assert found == expected


def test_calls_take_what_the_headers_say(tmp_path: Path) -> None:
    folder = next(filter(_with_vmem, _FOLDERS), None)
    compiler = shutil.which("c++") or shutil.which("g++")
    if folder is None or compiler is None:
        pytest.skip("needs a C++ compiler and the headers of ROCm 6.1 or newer (make amd-gpu)")
    source = tmp_path / "calls.cpp"
    source.write_text(
        "#include <hsa/hsa.h>\n#include <hsa/hsa_ext_amd.h>\n#include <cstdio>\n"
        "template <class> struct Call;\n"
        "template <class R, class... A> struct Call<R(A...)> {\n"
        '  static void say(const char* name) { std::printf("%s", name); '
        'int sizes[] = {(std::printf(" %zu", sizeof(A)), 0)...}; (void)sizes; std::printf("\\n"); }\n};\n'
        "int main() {" + "".join(f'Call<decltype({name})>::say("{name}");\n' for name in hsa._TAKES) + "}"
    )
    command = [compiler, "-std=c++14", f"-I{folder}", str(source), "-o", str(tmp_path / "calls")]
    subprocess.run(command, check=True)
    printed = subprocess.run([str(tmp_path / "calls")], check=True, capture_output=True, text=True).stdout
    found = {name: [int(size) for size in sizes] for name, *sizes in map(str.split, printed.splitlines())}
    assert found == {name: [ctypes.sizeof(each) for each in takes] for name, takes in hsa._TAKES.items()}
