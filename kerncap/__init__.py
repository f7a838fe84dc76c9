"""kerncap: one kernel launch, taken out of a running program, that anyone can run, edit and prove alone."""

__version__ = "0.1.0"
