"""What of a reproducer should not leave the machine: secrets, and the names of people and machines.

`Scrubber` replaces them; `pieces` and `command` find secrets, `people` names. Memory is not looked at: a
reproducer's data is what it is about.
"""

from kerncap.format.private.finding import KEPT, Finding, Kind
from kerncap.format.private.people import Names, of_this_machine
from kerncap.format.private.scrub import Scrubber

__all__ = ["KEPT", "Finding", "Kind", "Names", "Scrubber", "of_this_machine"]
