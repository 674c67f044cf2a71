"""The lower half of the cluster layer: finding a server, being someone to it, and the wire."""
