"""Passes: when they begin, how they plan, and how they end."""
