"""Kernels in pairs: one function written in two ways, and mistakes that look like it."""
