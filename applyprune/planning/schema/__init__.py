"""What schemas and server errors say about fields."""
