"""The records in the tables, and the keys under which they stand.

| key                    | record          | meaning                                                   |
| ---------------------- | --------------- | --------------------------------------------------------- |
| `po:POOL`              | `Pool`          | a pool (put-if-absent: the name is unique)                |
| `uu:USER`              | `User`          | an owner of pools, and whether they are permitted         |
| `ps:POOL`              | `PoolStatus`    | the pool's state, with the reason                         |
| `bd:DIRECTORY`         | pool name       | the pool that uses a directory (put-if-absent)            |
| `ma:POOL`              | `ManagerEntry`  | the manager in charge: a lease (put-if-absent, expires)   |
| `mn:POOL`              | `BackendEntry`  | the backend process that the manager runs                 |
| `mx:HOST:PORT:PID`     | `GatewayEntry`  | a gateway process (expires)                               |
| `ep:POOL`              | path, HOST:PORT | where the running backend listens: a Unix socket, or TCP  |
| `bk:BUCKET`            | `Bucket`        | a bucket in the one global namespace (put-if-absent)      |
| `ts:POOL`              | Unix time       | the pool's last access                                    |
| `id:ACCESS_KEY`        | `Key`           | an access key (put-if-absent)                             |
| `dn:NAME`              | pool name       | the pool behind a direct host name (put-if-absent)        |
| `gn:POOL`              | a number        | generation: grows with buckets that a backend is to make  |
| `lk:places`            | a process       | held while a pool is created or deleted (expires)         |
| `lc:UID`               | `RuleSet`       | the lifecycle rules of the bucket with that uid           |
| `co:UID`               | `CorsRules`     | the CORS rules of that bucket                             |
| `rp:UID`               | rules           | the `ReplicationRules` of that bucket                     |
| `rd:HOST:PORT/BUCKET`  | a claim         | the pool whose versions go to that bucket of a site       |
| `bv:UID`               | `BucketState`   | what lifecycle must know of that bucket beside its rules  |
| `or:NUMBER`            | a token         | who has a key lock (put-if-absent, expires); Redis only   |
| `ot:NUMBER`            | nanoseconds     | the last time given to a change there; Redis only         |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.codec import JsonRecord


class KeyPolicy(StrEnum):
    READWRITE = "readwrite"
    READONLY = "readonly"
    WRITEONLY = "writeonly"


class BucketPolicy(StrEnum):
    """What a request without a key may do."""

    NONE = "none"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    PUBLIC = "public"


class PoolState(StrEnum):
    """A pool without a `ps:` entry has no state yet (None)."""

    INITIAL = "INITIAL"
    READY = "READY"
    DISABLED = "DISABLED"
    INOPERABLE = "INOPERABLE"


@dataclass(frozen=True, slots=True)
class Pool(JsonRecord):
    PREFIX = "po:"

    name: str
    owner: str
    group: str
    directory: str
    backend: str
    created_at: float
    online: bool = True
    expires_at: float | None = None
    direct_hostname: str = ""


@dataclass(frozen=True, slots=True)
class User(JsonRecord):
    PREFIX = "uu:"

    name: str
    permitted: bool
    modified_at: float
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolStatus(JsonRecord):
    PREFIX = "ps:"

    state: str
    reason: str
    modified_at: float


@dataclass(frozen=True, slots=True)
class ManagerEntry(JsonRecord):
    """`token` is random and tells this manager from any other, also after a pid is reused."""

    PREFIX = "ma:"

    host: str
    pid: int
    token: str
    started_at: float


@dataclass(frozen=True, slots=True)
class BackendEntry(JsonRecord):
    """`admin_key` is the backend's one credential, made at its start; `admin_secret` is sealed. `generation` is the one
    whose buckets it has."""

    PREFIX = "mn:"

    endpoint: str
    pid: int
    admin_key: str
    admin_secret: str
    host: str
    manager_pid: int
    manager_token: str
    generation: int
    started_at: float


@dataclass(frozen=True, slots=True)
class GatewayEntry(JsonRecord):
    PREFIX = "mx:"

    host: str
    port: int
    pid: int
    started_at: float
    modified_at: float


@dataclass(frozen=True, slots=True)
class Bucket(JsonRecord):
    """`uid` tells a bucket from an earlier one of the same name."""

    PREFIX = "bk:"

    name: str
    pool: str
    uid: str
    policy: str
    created_at: float


@dataclass(frozen=True, slots=True)
class BucketState(JsonRecord):
    """What is known of a bucket without waking its pool: its versioning ("Off", "Enabled", "Suspended"), and since
    when the metadata log has every change in it (0: since it was made, empty)."""

    PREFIX = "bv:"

    versioning: str
    complete_since_ns: int = 0


@dataclass(frozen=True, slots=True)
class Key(JsonRecord):
    """`secret` is sealed: the vault opens it. An `internal` key is one that Tidegate's own workers use."""

    PREFIX = "id:"

    access_key: str
    pool: str
    secret: str
    policy: str
    created_at: float
    expires_at: float | None = None
    internal: bool = False
