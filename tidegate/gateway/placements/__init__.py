"""Moved objects: read from where they lie, shown in listings, kept in step with the changes of their keys."""
