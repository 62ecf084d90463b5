"""Replication: versions of buckets with replication rules go to sites, in their order, and their statuses are kept."""
