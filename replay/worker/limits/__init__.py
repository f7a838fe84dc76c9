"""Measures what a device can do, with kernels in PTX that its driver assembles: no compiler is needed."""
