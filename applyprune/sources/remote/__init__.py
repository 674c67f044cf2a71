"""Sources on other hosts: what all kinds of them share."""
