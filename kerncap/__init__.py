"""kerncap: one kernel launch of a running program, for anyone to run, edit and verify by itself."""

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext kerncap`` in IPython and Jupyter calls."""
    from kerncap.notebook import load

    load(shell)
