"""Launches with torch and Triton: the captured image, the source compiled again, and the interpreter."""
