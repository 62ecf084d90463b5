"""Types of fields as types of Arrow columns. Schemas derive from definitions, for Arrow here, for Spark beside it."""

from __future__ import annotations

from enum import Enum
from types import UnionType
from typing import Any, NewType, get_args, get_type_hints

import pyarrow as pa
from msgspec import Struct

from tidegate.core.events import Pairs

# For columns that need no more than 32 bits.
Int32 = NewType("Int32", int)
_PLAIN: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    Int32: pa.int32(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    list[int]: pa.list_(pa.int64()),
    Pairs: pa.map_(pa.string(), pa.string()),
}


def arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, UnionType):  # with None: every column may be null
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    return _PLAIN[str if isinstance(kind, type) and issubclass(kind, Enum) else kind]


def kinds_of(struct: type[Struct]) -> dict[str, Any]:
    """The types of the fields, by name."""
    hints = get_type_hints(struct)
    return {name: hints[name] for name in struct.__struct_fields__}


def arrow_schema_of(struct: type[Struct]) -> pa.Schema:
    return pa.schema([(name, arrow_type(kind)) for name, kind in kinds_of(struct).items()])
