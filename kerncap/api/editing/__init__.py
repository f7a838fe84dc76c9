"""The parts of `api.edit`: working copies, saves, judgements, patches, and the loop around them."""
