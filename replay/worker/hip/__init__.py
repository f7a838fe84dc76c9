"""HIP launches on an AMD GPU, through ROCr alone: memory at captured addresses, code objects, dispatches."""
