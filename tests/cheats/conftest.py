"""The command line, as the integration tests run it."""

from tests.integration.conftest import kerncap_of_module

__all__ = ["kerncap_of_module"]
