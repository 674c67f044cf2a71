"""The engine of a run: read, plan, record, apply, wait, prune, record, as a stream of events."""
