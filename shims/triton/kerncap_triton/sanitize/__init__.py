"""The sanitizer's part in the target, with its Triton: launches become plain descriptions.

The rules of this folder's parent hold: the standard library only, Triton and torch taken as found. The
same modules serve a target under ``kerncap sanitize --``, whose Python may have no kerncap, and kerncap's
own Python (`kerncap.sanitizer.sources.triton_call`, the pytest plugin).
"""
