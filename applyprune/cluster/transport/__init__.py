"""One request and its response: connections, retries, errors."""
