"""Native launches: memory, states, comparison and timing with numpy and the driver alone."""
