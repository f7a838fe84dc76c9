"""Live runs: launches that a hook describes are judged, and those on CPU tensors carried out."""
