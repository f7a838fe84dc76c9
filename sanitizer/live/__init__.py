"""Live runs: launches that a hook describes are judged, and carried out where they lie on the CPU."""
