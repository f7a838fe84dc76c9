"""Kernels of many domains, clean and buggy: what the sanitizer has to get right, launch by launch."""
