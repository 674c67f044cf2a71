"""Sources of Bundles on other hosts."""
