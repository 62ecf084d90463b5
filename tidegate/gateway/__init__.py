"""The S3 door: authenticate, route, forward, log."""
