"""A request: admitted, taken in, forwarded and answered."""
