"""Manifests of Bundles from other hosts: fetched once for all that use them."""
