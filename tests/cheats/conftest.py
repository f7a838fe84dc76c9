"""The command line, as the integration tests run it, and its compilers."""

from tests.integration.conftest import kerncap_of_module
from tests.shared_compilers import shared_compilers

__all__ = ["kerncap_of_module", "shared_compilers"]
