"""The operations beside the run: status, explain, move, repair and release."""
