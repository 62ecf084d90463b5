"""What operators see of lifecycle and ask of it."""
