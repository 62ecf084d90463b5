"""`python -m tidegate.pipeline.session.python_workers`: the parent of Spark's Python workers, for `pyspark.daemon`.

Spark puts its archives (pyspark.zip, a jar of thousands of classes) on the workers' path, and every task makes Python
read their tables of contents again: a fifth of a second of processor time, however little the task does. Where PySpark
is installed, nothing is imported from them.
"""

from __future__ import annotations

import importlib.util
import sys

MODULE = "tidegate.pipeline.session.python_workers"


def leave_archives_out() -> None:
    """Of the path of this process, and of its children."""
    path = sys.path[:]
    sys.path[:] = [place for place in path if not place.endswith((".zip", ".jar"))]
    if importlib.util.find_spec("pyspark") is None:
        sys.path[:] = path
        return
    for place in set(path).difference(sys.path):
        sys.path_importer_cache.pop(place, None)


if __name__ == "__main__":
    leave_archives_out()
    # Only now: it is to come from where it is installed.
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]  # PySpark has no types there
