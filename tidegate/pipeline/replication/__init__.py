"""Replication compared: what a bucket has, what records say, and what lies at its sites."""
