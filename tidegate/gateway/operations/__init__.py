"""S3's operations: the table of them, and those that the gateway answers or looks into itself."""
