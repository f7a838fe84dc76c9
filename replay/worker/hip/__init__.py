"""HIP launches on an AMD GPU, only through ROCr: memory at captured addresses, code objects, dispatches."""
