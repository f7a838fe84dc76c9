"""What the driver was given to load: fatbins, cubins, PTX. Read as a stranger's bytes, never executed."""

from kerncap.capture.images.choose import Chosen, choose, variables
from kerncap.capture.images.cubin import Cubin
from kerncap.capture.images.fatbin import Entry, entries, payload
from kerncap.capture.images.problem import ImageProblem
from kerncap.capture.images.waits import may_wait_for_launches, waits

__all__ = [
    "Chosen", "Cubin", "Entry", "ImageProblem", "choose", "entries", "may_wait_for_launches", "payload",
    "variables", "waits",
]  # fmt: skip
