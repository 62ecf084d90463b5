"""Jobs that operators ask for and Spark carries out, in a process of their own: one at a time over all machines."""
