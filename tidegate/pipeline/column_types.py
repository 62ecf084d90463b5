"""Types of fields as types of columns, for Spark and for Arrow: the schemas derive from the definitions in the core."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tidegate.core.events import Pairs

# The columns that need no more than 32 bits.
INT32 = IntegerType()
_PLAIN: dict[Any, DataType] = {
    bool: BooleanType(),
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
    Pairs: MapType(StringType(), StringType()),
    list[int]: ArrayType(LongType()),
}


def columns(**kinds: Any) -> list[StructField]:
    return [StructField(name, _column_type(kind)) for name, kind in kinds.items()]


def columns_of(struct: type[Struct]) -> list[StructField]:
    hints = get_type_hints(struct)
    return columns(**{name: hints[name] for name in struct.__struct_fields__})


@cache
def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema)


def _column_type(kind: Any) -> DataType:
    if isinstance(kind, DataType):
        return kind
    if isinstance(kind, UnionType):  # with None: every column may be null
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    if isinstance(kind, type) and issubclass(kind, Enum):
        kind = str
    return _PLAIN[kind]
