"""The commands that write configuration files."""
