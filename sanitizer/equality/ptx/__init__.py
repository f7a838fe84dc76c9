"""CUDA kernels as PTX: a reader, and an evaluator of whole blocks of threads over `Numbers`."""
