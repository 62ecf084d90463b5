from spark_session import spark

__all__ = ["spark"]
