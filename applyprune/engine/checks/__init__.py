"""Check a plan with requests that write nothing, before the first write."""
