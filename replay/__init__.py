"""Replay: one captured launch run alone, in a process of its own, and judged against its oracle."""
