"""The CUDA driver: a device, memory at captured addresses, images, kernels of our own."""
