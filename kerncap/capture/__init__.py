"""Sessions: start a target under the hook, read what it records, seal reproducers."""
