"""Tuning: which configurations a launch could have, which of them are right, and which is the fastest."""
