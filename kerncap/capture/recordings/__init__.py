"""Launches that other tools recorded: tritonparse, AMD's kerncap, HIP's record and replay.

All of it is a stranger's: sizes are checked before memory is taken, files are read inside the recording's
folder only, and nothing is executed.
"""
