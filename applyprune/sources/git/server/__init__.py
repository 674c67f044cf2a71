"""The server of a repository: its addresses, redirects and credentials."""
