"""What events look like to whoever reads them."""
