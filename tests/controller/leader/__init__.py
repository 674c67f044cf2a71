"""Replicas share the Bundles: who lives, who serves what, and what forged Leases can do."""
