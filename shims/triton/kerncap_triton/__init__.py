"""The Triton hook: runs inside the target.

Rules for every module in here: the standard library only, never an import that the target did not
make (`sys.modules`, not `import torch`); an error of ours becomes a FAILED record and the target's
launch goes on; an error of the target's passes through untouched; no thread outlives a capture (a
process with threads may not fork in peace).
"""
