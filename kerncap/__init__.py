"""kerncap: one kernel launch, taken out of a running program, that anyone can run, edit and prove alone."""

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext kerncap`` in IPython and Jupyter calls."""
    from kerncap.notebook import load

    load(shell)
