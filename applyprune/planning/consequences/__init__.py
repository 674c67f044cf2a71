"""What a plan causes beyond the changes of its objects."""
