"""The stages of `verify`, each a file; `kerncap.api.verify` is what others import."""
