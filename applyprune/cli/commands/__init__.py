"""The commands, in a folder for each heading of the help."""
