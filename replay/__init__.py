"""Replay: one captured launch, run in a separate process and judged by its oracle."""
