"""Carrying out the lifecycle rules: the roles that find what is due by listing, and the ones that act."""
