"""The API server: find it, authenticate, and send one request at a time."""
