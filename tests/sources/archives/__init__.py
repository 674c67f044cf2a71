"""Archives of manifests."""
