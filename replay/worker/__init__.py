"""The replay worker: one process per device that holds a launch's memory and runs it.

It is loaded by path under a private name into whichever Python has torch and triton, and needs nothing
of kerncap there: standard library, numpy, torch and triton only.
"""
