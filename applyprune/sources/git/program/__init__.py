"""The ``git`` program: how it is run, until when, and what its messages mean."""
