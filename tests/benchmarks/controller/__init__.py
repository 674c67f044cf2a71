"""The controller with many Bundles: requests, CPU seconds, memory, and then time."""
