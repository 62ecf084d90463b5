"""Connections: clients' and backends', heads and framing, and bodies that stay in the kernel."""
