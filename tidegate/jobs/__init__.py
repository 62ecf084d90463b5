"""Jobs that operators ask for and Spark carries out, each in a process of its own: one at a time over all machines."""
