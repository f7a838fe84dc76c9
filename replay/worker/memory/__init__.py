"""Memories: where regions are placed, captured address first."""
