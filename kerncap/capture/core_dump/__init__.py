"""CUDA's GPU core dumps, read without CUDA: what the driver writes after an exception of a kernel."""
