"""What stands behind the ports: SQLite, Redis and Kafka."""
