"""Tidegate: one S3 endpoint in front of many tenants' object stores."""

__version__ = "0.1.0"
