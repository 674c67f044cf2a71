"""The rows of failures.md, each with a test named after it."""
