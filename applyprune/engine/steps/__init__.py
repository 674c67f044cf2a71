"""The steps of a run: apply, wait, prune, and their dry runs."""
