"""One Spark session for all tests of a run: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidegate.pipeline.session.spark_session import open_session
from tidegate.settings import Settings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_session(Settings(), tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
