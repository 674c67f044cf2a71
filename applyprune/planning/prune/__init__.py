"""What a prune deletes, and what refuses it."""
