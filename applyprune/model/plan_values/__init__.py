"""The values that a plan consists of, besides its steps."""
