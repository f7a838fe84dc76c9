"""Two reproducers, or two results, held against each other; nothing is executed."""
