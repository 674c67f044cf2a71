"""What it takes, in seconds, beside kubectl; run by ``make bench``, never by pytest."""
