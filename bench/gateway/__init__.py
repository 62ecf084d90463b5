"""What the gateway costs: the same backend and client, direct, through nginx and through Tidegate."""
