"""Spark: what is due, worked out from the metadata log and from listings. It reads and plans, and changes no object."""
