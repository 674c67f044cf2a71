"""The pure decisions about inventories."""
