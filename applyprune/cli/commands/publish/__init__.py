"""Commands that publish manifests."""
