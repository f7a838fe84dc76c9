"""Races over the accesses of an evaluated launch."""
