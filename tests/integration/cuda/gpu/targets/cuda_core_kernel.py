"""cuda.core: CUDA C++ that NVRTC compiles, launched by its own launcher."""

import numpy as np
import torch

try:
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
except ImportError:  # before 1.0
    from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
template <typename T> __global__ void kc_saxpy(T a, const T *x, T *y, unsigned long long n) {
  auto i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
N = 4000

device = Device()
device.set_current()
x = torch.arange(N, dtype=torch.float32, device="cuda")
y = torch.ones(N, dtype=torch.float32, device="cuda")
torch.cuda.synchronize()
stream = device.create_stream()
program = Program(CODE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
kernel = program.compile("cubin", name_expressions=("kc_saxpy<float>",)).get_kernel("kc_saxpy<float>")
config = LaunchConfig(grid=(N + 127) // 128, block=128)
launch(stream, config, kernel, np.float32(0.5), x.data_ptr(), y.data_ptr(), np.uint64(N))
stream.sync()
print(float(y.sum()))
