"""Pools: their registry, the manager that runs a pool's backend, and the backends."""
