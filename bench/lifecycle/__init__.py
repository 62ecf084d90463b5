"""Lifecycle beside what others do with the same data: planning, acting, walking."""
