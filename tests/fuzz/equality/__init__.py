"""Mutants of kernels, proved equal to the kernel or not: none that is proved may differ."""
