"""Archives of manifests: where they are, and what is in them."""
