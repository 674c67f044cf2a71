"""The verbs that are no run: status, explain, and work on an inventory."""
