"""Pure values and functions: no I/O, no clock, no processes. `now` is always an argument."""
