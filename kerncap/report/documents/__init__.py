"""The documents that ``--json`` prints, as types, with the parts of results that are printed as they are."""
