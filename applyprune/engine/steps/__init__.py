"""The steps of a run: apply, wait, prune, and the dry run of each."""
