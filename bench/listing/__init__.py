"""Listings of large buckets through the gateway, beside the same listings of the store alone."""
