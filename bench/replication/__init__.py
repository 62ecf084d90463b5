"""Versions that are replicated to another store."""
