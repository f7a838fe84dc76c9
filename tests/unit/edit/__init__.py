"""Of `kerncap replay --edit` and `--watch`."""
