"""Native launches: memory, states, comparison and timing with only numpy and the driver."""
