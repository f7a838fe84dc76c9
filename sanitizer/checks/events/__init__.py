"""Checks over access events: what each access of an evaluated launch touched, and who wrote it first."""
