"""What all sources on other hosts share."""
