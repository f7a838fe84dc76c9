"""The programs of the self-test: a vector addition by each way to launch one, which check their own result.

Each is a file of its own when it runs. They need no compiler: Triton has its own, the driver assembles PTX,
HIPRTC is part of ROCm's runtime, and hip-python calls it.
"""

from __future__ import annotations

KERNELS = {
    "triton-cpu": "kerncap_doctor", "triton-cuda": "kerncap_doctor", "triton-hip": "kerncap_doctor",
    "cuda": "vector_add", "hip": "kerncap_doctor",
}  # fmt: skip

TRITON = r"""
import sys, torch, triton, triton.language as tl

@triton.jit
def kerncap_doctor(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, total, mask=i < n)

device = sys.argv[1]
x = torch.arange(1000, dtype=torch.float32).to(device)
y = x * 0.5
out = torch.empty_like(x)
kerncap_doctor[(4,)](x, y, out, 1000, BLOCK=256)
assert torch.equal(out.cpu(), (x + y).cpu()), "the kernel computed something else"
"""

# The PTX asks for nothing that is newer than the oldest GPU a driver of today knows.
CUDA = r"""
import array, ctypes
from cuda.bindings import driver
PTX = b'''.version 6.0
.target sm_30
.address_size 64
.visible .entry _Z10vector_addPKfS0_Pfi(
    .param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.s32 %rd4, %r5, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd7], %f3;
DONE:
    ret;
}
\0'''
N = 1000

def call(name, *arguments):
    status, *found = getattr(driver, name)(*arguments)
    if status:
        raise SystemExit("%s: %s" % (name, status.name))
    return found[0] if found else None

call("cuInit", 0)
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", 0)))
function = call("cuModuleGetFunction", call("cuModuleLoadData", PTX), b"_Z10vector_addPKfS0_Pfi")

def upload(values):
    memory = call("cuMemAlloc", 4 * N)
    call("cuMemcpyHtoD", memory, array.array("f", values).tobytes(), 4 * N)
    return memory

a, b, out = upload(range(N)), upload([0.5 * i for i in range(N)]), upload([0.0] * N)
passed = (int(a), int(b), int(out), N), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
call("cuLaunchKernel", function, 4, 1, 1, 256, 1, 1, 0, 0, passed, 0)
call("cuCtxSynchronize")
found = array.array("f", [0.0] * N)
call("cuMemcpyDtoH", found.buffer_info()[0], out, 4 * N)
assert list(found) == [1.5 * i for i in range(N)], "the kernel computed something else"
"""

HIP = r"""
import array, ctypes
from hip import hip, hiprtc
SOURCE = b'''extern "C" __global__ void kerncap_doctor(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
'''
N = 1000

def check(result):
    if result[0].value:
        raise SystemExit(str(result[0]))
    return result[1] if len(result) > 1 else None

check(hip.hipInit(0))
program = check(hiprtc.hiprtcCreateProgram(SOURCE, b"kerncap_doctor.hip", 0, None, None))
check(hiprtc.hiprtcCompileProgram(program, 0, None))
code = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
check(hiprtc.hiprtcGetCode(program, code))
function = check(hip.hipModuleGetFunction(check(hip.hipModuleLoadData(code)), b"kerncap_doctor"))

def upload(values):
    memory, data = check(hip.hipMalloc(4 * N)), array.array("f", values)
    check(hip.hipMemcpy(memory, data, 4 * N, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    return memory

a, b, out = upload(range(N)), upload([0.5 * i for i in range(N)]), upload([0.0] * N)
each = (a, b, out, ctypes.c_int(N))
check(hip.hipModuleLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, None, None, each))
check(hip.hipDeviceSynchronize())
found = array.array("f", [0.0] * N)
check(hip.hipMemcpy(found, out, 4 * N, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
assert list(found) == [1.5 * i for i in range(N)], "the kernel computed something else"
"""

# key of the way -> text, words after its name, what it does to the environment
PROGRAMS: dict[str, tuple[str, tuple[str, ...], dict[str, str | None]]] = {
    "triton-cpu": (TRITON, ("cpu",), {"TRITON_INTERPRET": "1"}),
    "triton-cuda": (TRITON, ("cuda",), {"TRITON_INTERPRET": None}),
    "triton-hip": (TRITON, ("cuda",), {"TRITON_INTERPRET": None}),
    "cuda": (CUDA, (), {}),
    "hip": (HIP, (), {}),
}
