"""What the operating systems have in different ways, each for itself: locks, processes, terminals.

A module here has the same functions on each system. What a system does not have is an error when
it is used, never when it is imported.
"""
