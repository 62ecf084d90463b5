"""Data that moves to a location, is read there, and is deleted there."""
