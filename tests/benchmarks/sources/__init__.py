"""Sources on other hosts: requests at the API server and at the hosts, memory, and then time."""
