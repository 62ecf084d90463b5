"""The page of S3's operations leaves none out, and calls supported what stands in the table of operations."""

from __future__ import annotations

from compatibility_page import BEYOND_BOTOCORE, MODEL, OLDER_NAMES, PAGE, rows

from tidegate.core.s3errors import CODES
from tidegate.gateway.operations.table import OPERATIONS

ROWS = rows()


def test_every_operation_that_botocore_knows_is_named_exactly_once() -> None:
    assert sorted(row.name for row in ROWS) == sorted({*MODEL.operation_names, *BEYOND_BOTOCORE})


def test_every_row_of_the_page_is_understood() -> None:
    assert len(ROWS) == PAGE.read_text().count("\n| `")


def test_what_is_not_refused_stands_in_the_table_of_operations_and_nothing_else_does() -> None:
    offered = {OLDER_NAMES.get(row.name, row.name) for row in ROWS if row.standing != "refused"}
    assert offered == {name for name, operation in OPERATIONS.items() if not operation.is_internal}


def test_what_is_not_configured_is_answered_and_what_is_refused_gets_an_error() -> None:
    for row in ROWS:
        if row.standing != "supported":
            assert row.status == (CODES[row.code][0] if row.code else 200), row.name
        if row.standing == "refused":
            assert row.code, row.name
