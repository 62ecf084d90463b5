"""Replication, the pure part: rules, records of versions, messages, and the keys of the list of failures."""
