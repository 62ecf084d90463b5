"""The buckets with rules: which there are, and what is known of each."""
