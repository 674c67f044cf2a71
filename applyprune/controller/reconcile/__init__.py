"""One reconcile of a Bundle: what it reads, what it decides, and what it reports."""
