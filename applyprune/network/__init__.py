"""The wire, as the API server and the input by URL both need it: deadlines, proxies, faults."""
