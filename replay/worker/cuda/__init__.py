"""The CUDA driver through ctypes: a device, memory at captured addresses, images, kernels of our own."""
