"""The runtime of everything that acts on messages: a consumer is a message type and a function."""
