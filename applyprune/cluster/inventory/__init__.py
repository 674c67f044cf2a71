"""The inventory ConfigMap: format, compression, shards, compare-and-swap."""
