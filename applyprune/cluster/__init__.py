"""The API server: how it is found, who we are to it, and one request at a time over the wire."""
