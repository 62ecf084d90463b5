"""One audit: `python -m tidegate.movement.audit_process --data DIR --audit ID`, started by the auditor."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from tidegate import logs
from tidegate import settings as settings_module
from tidegate.assembly import open_location, open_tables
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.movement.audits import AuditStatus, LocationAudit, LocationAudits
from tidegate.movement.locations import Locations
from tidegate.pipeline.audit import orphans
from tidegate.pipeline.audit.location_source import AuditedLocation
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.session.warm_session import WarmSession, spark_errors
from tidegate.pools.vault import Vault
from tidegate.settings import Settings

_HOUR_NS = 3600 * 1_000_000_000

logger = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description="One audit of a location.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--audit", required=True)
    given = parser.parse_args()
    directory = DataDirectory(given.data)
    settings = settings_module.restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, "audit")
    warm = WarmSession(settings, directory.path)

    def end(*_: object) -> None:
        warm.kill()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    with closing(open_tables(settings, directory.path)) as tables:
        audits = LocationAudits(tables, directory.path)
        audit = replace(audits.get(given.audit), status=AuditStatus.RUNNING)
        audits.put(audit)
        configured = settings.locations
        with closing(Locations(tables, Vault.open(directory.path), configured, open_location)) as locations:
            ended = _audited(audit, audits, locations, warm, settings, directory.path)
        audits.put(ended)
    logger.log(
        logging.WARNING if ended.missing or ended.problem else logging.INFO,
        "audit %s of location %s %s: %d orphans, %d of them sent to deletion, %d versions without their data%s",
        *(ended.id, ended.location, ended.status, ended.orphans, ended.sent, ended.missing),
        f"; {ended.problem}" if ended.problem else "",
    )
    warm.end()
    sys.exit(0)


def _audited(
    audit: LocationAudit,
    audits: LocationAudits,
    locations: Locations,
    warm: WarmSession,
    settings: Settings,
    data: Path,
) -> LocationAudit:
    before_ns = time.time_ns() - int(settings.audit.orphan_grace_hours * _HOUR_NS)
    place = InstallationPlace(settings_module.dump(settings), str(data))
    folder = audits.folder(audit.id)
    try:
        location = locations.get(audit.location)
        audited = AuditedLocation(location, locations.secret(location))
        with spark_errors():
            counts = orphans.audit(warm.get(), audited, place, folder, before_ns=before_ns)
            if not audit.dry_run and counts.orphans > counts.foreign:
                sent = orphans.release(warm.get(), place, folder, location.name, settings.deletion.topic)
                counts = replace(counts, sent=sent)
    except TidegateError as error:
        return audit.failed(str(error), now=time.time())
    return replace(audit, status=AuditStatus.DONE, ended_at=time.time(), **asdict(counts))


if __name__ == "__main__":
    main()
