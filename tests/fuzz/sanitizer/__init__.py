"""Random Triton kernels: the sanitizer against brute force that shares nothing with it, nor with Triton."""
