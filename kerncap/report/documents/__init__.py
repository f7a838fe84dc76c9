"""The documents of ``--json`` that `kerncap.report` builds, as types."""
