"""Walking buckets: listings and inventory reports as frames."""
