"""An idle service: what it costs while nobody asks anything of it."""
