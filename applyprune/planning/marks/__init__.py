"""The annotations and labels of other tools, and what they mean to applyprune."""
