"""Divide the Bundles between the replicas: who is alive, and who serves which Bundle."""
