"""Ranges: several launches replayed in one worker, each on what those before it left in memory."""
