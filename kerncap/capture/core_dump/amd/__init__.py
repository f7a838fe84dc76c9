"""ROCm's GPU core dumps, read without ROCm: what ROCr writes after an exception of a kernel.

ROCr's file has the GPU's memory and a note of its queues. The registers, the dispatch packets and the
arguments are in memory of the process, which only the process's own core dump has.
"""
