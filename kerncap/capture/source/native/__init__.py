"""CUDA C++ and HIP: line tables, command lines, definitions, and the files of a unit.

Only the machine that captures looks for them; who reads a reproducer follows none of its paths.
"""
