"""Brute force beside the sanitizer: every program and lane of a launch, run by Triton's own interpreter.

Shares no code with the sanitizer. `client` asks from a test process; `worker` answers in a process of
its own, because Triton decides when it is imported whether kernels are interpreted.
"""
