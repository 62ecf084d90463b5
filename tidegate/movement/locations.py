"""The locations of an installation: those of the settings, and those in the tables, which commands make and remove."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.core.copies import COPIES
from tidegate.core.errors import AlreadyExists, Conflict, NotFound
from tidegate.core.locations import Location, check_location, complete_prefix
from tidegate.core.placements import PLACEMENTS, Placement
from tidegate.core.records import Bucket
from tidegate.core.replication.records import OPEN, OpenVersion, Status
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.core.trash import TRASH, TrashRecord
from tidegate.movement.location_check import CheckResult, check_store
from tidegate.movement.move_records import MoveRecords
from tidegate.movement.pending_deletes import AWAITING_GRACE
from tidegate.movement.transfer_limits import TransferLimits
from tidegate.pools.vault import Vault
from tidegate.ports import Store, Tables
from tidegate.settings import LocationSettings
from tidegate.table_pages import every

# How long a removal waits for pending deletes: those that were just sent are finished soon.
_PATIENCE_SECONDS, _LOOK_SECONDS = 5.0, 0.2

OpenLocation = Callable[[Location, str, TransferLimits], Store]


class Locations:
    """`configured` are those of the settings, by name. `open_location` makes a store of a location, its secret and its
    limits. `changed` is called when locations were made or removed. May be shared by threads."""

    def __init__(
        self,
        tables: Tables,
        vault: Vault,
        configured: Mapping[str, LocationSettings],
        open_location: OpenLocation,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._tables = tables
        self._vault = vault
        self._open = open_location
        self._changed = changed
        self._configured = {
            name: given.location(name, vault.seal(given.secret_key.get_secret_value()))
            for name, given in configured.items()
        }
        self._lock = threading.Lock()
        self._stores: dict[str, tuple[Location, Store]] = {}

    # --- what there is ---------------------------------------------------------------------------

    def all(self) -> Sequence[Location]:
        """By name. Where one of the tables has the name of one in the settings, the settings count."""
        found = {location.name: location for location in self._made()} | self._configured
        return [found[name] for name in sorted(found)]

    def get(self, name: str) -> Location:
        configured = self._configured.get(name)
        if configured is not None:
            return configured
        text = self._tables.get(Location.PREFIX + name) if name else None
        if text is None:
            raise NotFound(f"there is no location {name!r}: tidegate location list shows those there are")
        return Location.from_json(text)

    def with_secret(self, name: str) -> tuple[Location, str]:
        """A location and its secret in the clear."""
        location = self.get(name)
        return location, self.secret(location)

    def bucket(self, name: str) -> str:
        return self.get(name).bucket

    def prefix(self, name: str) -> str:
        return self.get(name).prefix

    def is_configured(self, name: str) -> bool:
        """Whether it comes from the settings."""
        return name in self._configured

    def _made(self) -> Iterator[Location]:
        return (Location.from_json(text) for _, text in every(self._tables, Location.PREFIX))

    # --- making and removing ---------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        endpoint: str,
        bucket: str,
        access_key: str,
        secret: str,
        now: float,
        region: str = "us-east-1",
        prefix: str = "",
        storage_classes: Sequence[str] = (),
        ca_file: str = "",
        concurrency: int = 8,
        bytes_per_second: int = 0,
    ) -> Location:
        """The storage class defaults to the name. Nothing is sent to the endpoint: `check` does that."""
        if self.is_configured(name):
            raise AlreadyExists(f"location {name} stands in the settings: change it there")
        location = Location(
            name=name,
            endpoint=endpoint,
            bucket=bucket,
            access_key=access_key,
            secret=secret,
            created_at=now,
            region=region,
            prefix=complete_prefix(prefix),
            storage_classes=tuple(dict.fromkeys(storage_classes)) or (name,),
            ca_file=ca_file,
            concurrency=concurrency,
            bytes_per_second=bytes_per_second,
        )
        check_location(location, self.all())
        self._open(location, secret, _limits(location)).close()  # its authorities can be read
        sealed = replace(location, secret=self._vault.seal(secret))
        if not self._tables.put_if_absent(Location.PREFIX + name, sealed.to_json()):
            raise AlreadyExists(f"there is a location {name} already: remove it first, or choose another name")
        self._changed()
        return sealed

    def remove(self, name: str, deletes_in_flight: Callable[[], int]) -> None:
        """Only where no data is left, nor waits for deletion. A copy that begins at the same moment brings the location
        back."""
        if self.is_configured(name):
            raise Conflict(f"location {name} stands in the settings: take it out there")
        text = self.get(name).to_json()
        self._refuse_if_used(name, deletes_in_flight, patience_seconds=_PATIENCE_SECONDS)
        if not self._tables.compare_and_set(Location.PREFIX + name, text, None):
            raise Conflict(f"location {name} was changed in the meantime; look again")
        try:
            self._refuse_if_used(name, deletes_in_flight, patience_seconds=0)
        except Conflict:
            self._tables.put_if_absent(Location.PREFIX + name, text)
            raise
        finally:
            self._changed()
        self._drop(name)

    def _refuse_if_used(self, name: str, deletes_in_flight: Callable[[], int], *, patience_seconds: float) -> None:
        if self._tables.scan(f"{COPIES}{name}/", limit=1):
            raise Conflict(f"data is on its way to location {name}: try again when it has arrived")
        move = next((each for each in MoveRecords(self._tables).under_way() if each.location == name), None)
        if move is not None:
            raise Conflict(f"move {move.id} to location {name} is under way: try again when it has ended")
        needle = f'"location":"{name}"'  # most records are of other locations, and need not be read
        for _, text in every(self._tables, PLACEMENTS):
            if needle in text and (found := Placement.from_json(text)).location == name:
                raise Conflict(
                    f"location {name} has data of {found.bucket}/{found.key} and perhaps of others: {_way_out(found)}"
                )
        for entry, text in every(self._tables, REPLICATION):
            names_it = any(name in rule.sites for rule in ReplicationRules.from_json(text).rules)
            if names_it and (bucket := self._bucket_of(entry.removeprefix(REPLICATION))):
                raise Conflict(
                    f"the replication rules of bucket {bucket} name location {name}: "
                    "take it out of them first (aws s3api put-bucket-replication or delete-bucket-replication)"
                )
        for _, text in every(self._tables, f"{OPEN}{name}/"):
            if (version := OpenVersion.from_json(text)).status is Status.PENDING:
                raise Conflict(
                    f"versions of bucket {version.bucket} are on their way to site {name}: try again when they have "
                    "arrived or failed (tidegate replication status)"
                )
        for _, text in every(self._tables, TRASH):
            if needle in text and (kept := TrashRecord.from_json(text).placement).location == name:
                raise Conflict(
                    f"location {name} keeps {kept.bucket}/{kept.key} and perhaps others that were deleted: "
                    "wait until their grace is over, or bring them back and move them"
                )
        if self._tables.scan(f"{AWAITING_GRACE}{name}/", limit=1):
            raise Conflict(
                f"pending deletes of data in location {name} wait for the end of a grace: try again when it is over"
            )
        # Data is sent to deletion before its record goes.
        until = time.monotonic() + patience_seconds
        while (waiting := self._due(deletes_in_flight)) > 0 and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        if waiting > 0:
            raise Conflict(
                f"pending deletes are not finished ({waiting}), perhaps of data in location {name}: "
                "try again when they are (tidegate deletion status)"
            )

    def _due(self, deletes_in_flight: Callable[[], int]) -> int:
        """How many do not wait for the end of a grace. Those that do still wait when all are counted."""
        ends = [float(text) for _, text in every(self._tables, AWAITING_GRACE)]
        in_flight = deletes_in_flight()
        return in_flight - sum(end > time.time() for end in ends)

    def _bucket_of(self, uid: str) -> str:
        """Its name; empty if it is gone, and whoever deleted it died before its rules were removed."""
        buckets = (Bucket.from_json(text) for _, text in every(self._tables, Bucket.PREFIX))
        return next((bucket.name for bucket in buckets if bucket.uid == uid), "")

    # --- stores ----------------------------------------------------------------------------------

    def secret(self, location: Location) -> str:
        return self._vault.unseal(location.secret)

    def store(self, name: str) -> Store:
        """The same one for as long as the location is the same."""
        location = self.get(name)
        with self._lock:
            known = self._stores.get(name)
            if known is not None and known[0] == location:
                return known[1]
        made = self._open(location, self.secret(location), _limits(location))
        with self._lock:
            known = self._stores.get(name)
            if known is not None and known[0] == location:
                return known[1]
            self._stores[name] = (location, made)
        if known is not None:
            known[1].close()
        return made

    def check(self, name: str) -> CheckResult:
        """Writes, reads, looks at and deletes a small object, and says how long that took."""
        location = self.get(name)
        return check_store(location, lambda: self.store(name))

    def close(self) -> None:
        with self._lock:
            stores, self._stores = self._stores, {}
        for _, store in stores.values():
            store.close()

    def _drop(self, name: str) -> None:
        with self._lock:
            known = self._stores.pop(name, None)
        if known is not None:
            known[1].close()


def _way_out(placement: Placement) -> str:
    """How its data leaves the location."""
    if placement.is_current:
        return f"move it back first (tidegate move s3://{placement.bucket}/ --back)"
    return (
        f"the noncurrent version {placement.version_id} cannot be moved back: delete it first, or move it to another "
        f"location (tidegate move s3://{placement.bucket}/ --to LOCATION --versions)"
    )


def _limits(location: Location) -> TransferLimits:
    return TransferLimits(location.name, location.concurrency, location.bytes_per_second)
