"""Whether two Triton kernels compute the same function: exact arithmetic in place of floats.

Equal over the reals is shown by runs on random elements of prime fields, where the order of sums, tiles and
rescaled passes make no difference; different is shown by inputs on which real runs differ.
"""
