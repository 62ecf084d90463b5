"""The lifecycle of objects, decided without I/O or a clock: rules, due times, plans, cursors and messages."""
