"""The metadata log as a table."""
