"""A compiled Triton launch: its arguments, another configuration of it, its parameters. Needs no torch."""
