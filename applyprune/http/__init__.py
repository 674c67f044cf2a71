"""HTTP connections with deadlines, shared by the sources and the cluster."""
