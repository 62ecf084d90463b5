"""A change: its key lock, its intent, its events in the metadata log, and what heals it."""
