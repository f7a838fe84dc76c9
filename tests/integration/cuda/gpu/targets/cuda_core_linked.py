"""cuda.core: two programs of NVRTC, linked into one image, whose kernel is launched by its own launcher."""

import torch

try:
    from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch
except ImportError:  # before 1.0
    from cuda.core.experimental import (
        Device,
        LaunchConfig,
        Linker,
        LinkerOptions,
        Program,
        ProgramOptions,
        launch,
    )

KERNEL = """
extern __device__ float scaled(float value);
extern "C" __global__ void kc_linked(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = scaled(x[i]) + 1.0f;
}
"""
FUNCTION = "__device__ float scaled(float value) { return value * 0.75f; }"
N = 4000

device = Device()
device.set_current()
arch = f"sm_{device.arch}"
options = ProgramOptions(std="c++17", arch=arch, relocatable_device_code=True)
parts = [Program(text, code_type="c++", options=options).compile("cubin") for text in (KERNEL, FUNCTION)]
kernel = Linker(*parts, options=LinkerOptions(arch=arch)).link("cubin").get_kernel("kc_linked")
x = torch.arange(N, dtype=torch.float32, device="cuda")
torch.cuda.synchronize()
stream = device.create_stream()
launch(stream, LaunchConfig(grid=(N + 127) // 128, block=128), kernel, x.data_ptr(), N)
stream.sync()
print(float(x.sum()))
