"""Types of fields as types of Spark's columns, by way of Arrow's."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from tidegate.pipeline.arrow_types import arrow_type, kinds_of


def columns(**kinds: Any) -> list[StructField]:
    return [StructField(name, from_arrow_type(arrow_type(kind))) for name, kind in kinds.items()]


def columns_of(struct: type[Struct]) -> list[StructField]:
    return columns(**kinds_of(struct))


@cache
def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema)
