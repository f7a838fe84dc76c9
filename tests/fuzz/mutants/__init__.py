"""Mutants of real kernels: `verify` beside a judge that shares nothing with it but the captured memory."""
