"""The formats that a release promises to read: what each has written lies in fixtures/formats."""
