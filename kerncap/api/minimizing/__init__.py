"""What of a reproducer's memory its launch needs, and the reproducer of that alone."""
