"""Order between programs that atomics make."""
