"""Launchers: how one launch is run in a memory."""
