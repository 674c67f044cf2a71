"""What a plan causes."""
