"""One module per verb: what the command line, pytest and scripts call."""
