"""What kerncap asks of a language that kernels are written in.

Languages run in kerncap's own process, over what a stranger's program may have left: they read files, limit
what they read, and never import or execute any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kerncap.capture.source.wanted_source import FoundSource, Parameter, SourceRequest
from kerncap.format.kernel_names import KernelName

__all__ = ["Language", "Parameter"]


class Language:
    """Each method answers None for a kernel that is not the language's: the next language is asked then."""

    name = ""

    def parse_name(self, mangled: str, demangled: str) -> KernelName | None:
        """The kernel's name taken apart, from the image's and the demangled name only. Must be quick."""
        return None

    def parameters(
        self, mangled: str, demangled: str, declared: Sequence[Parameter] = ()
    ) -> Sequence[Parameter] | None:
        """Names and C++ types of the parameters as the driver gets them, from the kernel's name and from
        how its source declares them (`FoundSource.parameters`), if that was found."""
        return None

    def find(self, request: SourceRequest) -> FoundSource | None:
        """The kernel's source, or in ``missing`` why it has none."""
        return None

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        """Whether `find` would find the source proper. Asked while a launch waits; ``image`` gives the cubin
        or code object that has the kernel, and reading it costs the most."""
        return None
