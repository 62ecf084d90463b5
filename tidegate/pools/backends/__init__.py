"""How each kind of backend is started, set up, checked and stopped."""
