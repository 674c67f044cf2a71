"""HTTP for the API server and for input by URL: deadlines, proxies, connection errors."""
