"""A mixed load of reads, writes and deletes through the gateway, beside the same load on the store alone."""
