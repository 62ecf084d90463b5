"""The plan: what is due, from the log and from walks."""
