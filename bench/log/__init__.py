"""What it costs to append to the embedded log, beside the least that any log would cost on the same disk."""
