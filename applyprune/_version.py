"""The version, in one place: the build, the command line and the inventory's tooling mark read it."""

__version__ = "0.1.0"
