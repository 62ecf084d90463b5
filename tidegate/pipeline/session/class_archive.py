"""The archive of Spark's classes, read and verified once for all: a JVM that maps it into its memory starts in half the
time. `tidegate.pipeline.archive_classes` makes it. It belongs to one Java and one Spark; others do without it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

FILE = Path(sys.prefix) / "share" / "tidegate" / "spark-classes.jsa"
# What Java says of an archive that it cannot use, or of classes that it cannot archive, helps nobody.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def uses_archive() -> str:
    """Java's options, where there is an archive."""
    return f"-XX:SharedArchiveFile={shlex.quote(str(FILE))} {_QUIET}" if FILE.is_file() else ""


def makes_archive(file: Path) -> str:
    """Java's options; the file is written when the JVM ends by itself."""
    return f"-XX:ArchiveClassesAtExit={shlex.quote(str(file))} {_QUIET}"
