"""Results to text and JSON."""
