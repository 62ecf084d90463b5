"""All settings: one frozen, typed model per service.

Sources, the strongest first: `--set a.b=c`, the environment (`TIDEGATE_A__B=c`), the TOML file
(`--config FILE`, by default `tidegate.toml` in the data directory), the defaults below.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.assess import SMALL_OBJECT_BYTES
from tidegate.core.lifecycle.rules import STORAGE_CLASSES
from tidegate.core.locations import Location, check_location, complete_prefix

FILE_NAME = "tidegate.toml"
_ENVIRONMENT_PREFIX = "TIDEGATE_"

# Sections with any number of parts, each by a name of its own: `[locations.NAME]`.
BY_NAME = ("locations",)

Isolation = Literal["namespace", "certificates"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceSettings(Section):
    """The service as a whole."""

    account: str = Field(
        "tidegate",
        min_length=1,
        description="User as whom everything runs when root starts it; another user starts it as himself.",
    )


class GatewaySettings(Section):
    """The S3 endpoint."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(9000, ge=0, le=65535, description="Port of the S3 endpoint; 0 picks a free one.")
    processes: int = Field(0, ge=0, le=256, description="Gateway processes; 0 means one per core.")
    domains: tuple[str, ...] = Field(
        ("localhost",),
        description="Host names of the endpoint itself; `BUCKET.NAME` of each is virtual-hosted style.",
    )
    direct_domain: str = Field(
        "", description="A pool with a direct host name NAME answers at NAME.DIRECT_DOMAIN; empty turns this off."
    )
    trusted_hosts: tuple[str, ...] = Field(
        (), description="Who may connect: addresses, networks and host names. Empty means everybody."
    )
    tls_certificate: str = Field("", description="PEM file with the certificate chain; empty means plain HTTP.")
    tls_key: str = Field("", description="PEM file with the certificate's key.")
    max_connections: int = Field(
        0,
        ge=0,
        description="Client connections of one process; 0 means half of what the limit of open files leaves room for.",
    )
    head_limit_bytes: int = Field(32768, ge=4096, description="Largest request line plus headers.")
    idle_seconds: float = Field(75, gt=0, description="An idle client connection is closed after this.")
    head_seconds: float = Field(20, gt=0, description="A request head must be complete after this.")
    stall_seconds: float = Field(60, gt=0, description="A body that does not move for this long ends the request.")
    backend_connect_seconds: float = Field(5, gt=0, description="Time allowed to connect to a backend.")
    backend_seconds: float = Field(
        60, gt=0, description="Time a backend may take to answer a complete request before it is checked and purged."
    )
    healing_seconds: float = Field(
        600,
        gt=0,
        description="How long a backend may still be at work on a change whose connection broke or that it did not "
        "answer in time. Until then the change is looked into again and again.",
    )
    backend_idle_connections: int = Field(64, ge=0, description="Idle backend connections kept per pool and process.")
    route_seconds: float = Field(1.0, ge=0, description="Life of a cached route, key or bucket entry.")
    access_seconds: float = Field(5.0, gt=0, description="How often a pool's access time is written.")
    registration_seconds: float = Field(10.0, gt=0, description="How often a gateway renews its `mx:` entry.")
    clock_skew_seconds: int = Field(900, gt=0, description="Largest difference to the client's clock.")
    drain_seconds: float = Field(5.0, ge=0, description="Time for running requests to end after SIGTERM.")


class ApiSettings(Section):
    """The HTTP API and the web pages."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(9001, ge=0, le=65535, description="Port of the HTTP API; 0 picks a free one.")
    admin_token: SecretStr = Field(
        SecretStr(""), description="Token for the API; empty makes one in the data directory at first start."
    )
    names: tuple[str, ...] = Field(
        (),
        description="Names under which the API is reached, such as `tidegate.example.org`, beside its address and "
        "`localhost`; with a port if it is not its own. Requests for other names are refused.",
    )
    metrics_open: bool = Field(True, description="Whether `/metrics` answers without the admin token.")
    tls_certificate: str = Field("", description="PEM file with the certificate chain; empty means plain HTTP.")
    tls_key: str = Field("", description="PEM file with the certificate's key.")


class PoolsSettings(Section):
    """Backends: how they are started, watched and stopped."""

    backend: str = Field("seaweedfs", description="Backend of a new pool.")
    isolation: Isolation = Field(
        "namespace",
        description="What keeps others on the machine from a backend: a network namespace of its own, or, where the "
        "system gives none, certificates that every connection needs.",
    )
    port_low: int = Field(20000, ge=1024, le=54000, description="First port for backends, if isolated by certificates.")
    port_high: int = Field(24999, ge=1024, le=54999, description="Last port for backends, if isolated by certificates.")
    start_seconds: float = Field(60, gt=0, description="Time allowed to start and set up a backend.")
    stop_seconds: float = Field(7, gt=0, description="Time for a backend's orderly stop before it is killed.")
    heartbeat_seconds: float = Field(5, gt=0, description="Interval between checks of a backend.")
    heartbeat_timeout_seconds: float = Field(5, gt=0, description="Time allowed for one check.")
    heartbeat_tolerance: int = Field(3, ge=1, description="Failed checks in a row before a backend is purged.")
    heartbeat_jitter: float = Field(0.1, ge=0, le=0.5, description="Share by which the interval varies.")
    watch_seconds: float = Field(1.0, gt=0, description="How often a manager looks at its entries in the tables.")
    mutex_seconds: float = Field(15, gt=2, description="Life of a manager's `ma:` entry unless it is renewed.")
    idle_seconds: float = Field(900, gt=0, description="A backend without requests for this long is stopped.")
    retry_seconds: float = Field(5, ge=0, description="Pause after a failed start before the next try.")
    memory_limit_mb: int = Field(0, ge=0, description="Soft memory limit given to a backend; 0 means none.")

    @model_validator(mode="after")
    def _ports_in_order(self) -> PoolsSettings:
        if self.port_high < self.port_low + 10:
            raise ValueError("pools.port_high must be at least pools.port_low + 10")
        return self


class TablesSettings(Section):
    """Where small records live."""

    backend: Literal["sqlite", "redis"] = Field("sqlite", description="sqlite on one machine, redis beyond.")
    redis_url: SecretStr = Field(SecretStr("redis://127.0.0.1:6379/0"), description="Address of the Redis server.")
    redis_namespace: str = Field(
        "tidegate", min_length=1, description="Keeps apart the installations that share a Redis server."
    )


class TopicsSettings(Section):
    """Where messages live."""

    backend: Literal["files", "kafka"] = Field("files", description="files on one machine, kafka beyond.")
    kafka_servers: str = Field("127.0.0.1:9092", description="Bootstrap servers of the Kafka cluster.")
    kafka_replication: int = Field(1, ge=1, description="Replication factor of topics that Tidegate creates.")
    kafka_prefix: str = Field(
        "",
        max_length=40,
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="Put before the name of every topic and group; keeps apart the installations that share a cluster.",
    )
    kafka_options: dict[str, SecretStr] = Field(
        {}, description="Further settings of the Kafka client by librdkafka's names, such as `security.protocol`."
    )
    lease_seconds: float = Field(10, gt=0, description="A consumer silent for this long loses its partitions.")
    task_days: float = Field(30, gt=0, description="Tasks that nobody finished in this time are dropped.")
    dead_letter_days: float = Field(90, gt=0, description="How long dead letters are kept.")


class MetalogSettings(Section):
    """The metadata log."""

    enabled: bool = Field(True, description="Off only for measurements: lifecycle and replication need the log.")
    topic: str = Field("metadata-log", description="Name of its topic.")
    partitions: int = Field(4, ge=1, le=256, description="Partitions of a newly made topic.")
    keep_days: float = Field(7, gt=0, description="How long records stay in the topic that everybody has read.")
    limit_days: float = Field(
        30, gt=0, description="After this, records leave the topic even if somebody still has to read them."
    )

    @model_validator(mode="after")
    def _limit_after_keeping(self) -> MetalogSettings:
        if self.limit_days < self.keep_days:
            raise ValueError("metalog.limit_days must be at least metalog.keep_days")
        return self


class StorageSettings(Section):
    """Disk space."""

    reserve_mb: int = Field(
        64,
        ge=0,
        description="Space (MiB) that is kept free where tables, topics and pools lie: with less left, gateways take "
        "no data in, and with a quarter of it they delete nothing either; 0: none.",
    )


class LifecycleSettings(Section):
    """Expiry of objects by the buckets' rules."""

    enabled: bool = Field(True, description="Whether rules are carried out; they can be put and read in any case.")
    engine: Literal["spark", "listing"] = Field(
        "spark", description="How passes find what is due: planned on Spark, or by listing every bucket, without Java."
    )
    day_seconds: float = Field(86400, gt=0, description="Length of a day; shorter ones are for trials and tests.")
    demo_day: bool = Field(
        False, description="Lets `tidegate demo` shorten the day of the pool `demo`; `tidegate up --demo` sets it."
    )
    cron: str = Field("0 1 * * *", description="When a pass starts (UTC), unless an interval is set.")
    interval_seconds: float = Field(0, ge=0, description="Start a pass this often instead; 0 means by `cron`.")
    storage_classes: tuple[str, ...] = Field(
        STORAGE_CLASSES,
        description="Storage classes from the warmest to the coldest. Transitions name those that locations serve; "
        "classes that are not in this list are colder, those of older locations first.",
    )
    minimum_transition_bytes: int = Field(
        SMALL_OBJECT_BYTES,
        ge=0,
        description="Transitions leave smaller objects alone unless the rule has a size; 0: none.",
    )
    strict_filters: bool = Field(
        False, description="Refuse filters with several predicates side by side instead of reading them as And."
    )
    walker_interval_minutes: float = Field(0, ge=0, description="Least time between two walks of a bucket.")
    clock_jump_hours: float = Field(
        168,
        ge=0,
        description="No pass begins, until it is confirmed, by a clock that is so far ahead of the last time that was "
        "seen; 0 believes every clock.",
    )
    max_runtime_minutes: float = Field(60, gt=0, description="A pass ends after this, and the next one goes on.")
    deletes_per_second: float = Field(0, ge=0, description="Most deletions of the whole installation; 0 means any.")
    deletes_burst: int = Field(0, ge=0, description="Deletions that may come at once; 0 means twice the rate.")
    metalog_retention_days: int = Field(
        400, ge=0, description="How long the log table keeps events for passes; 0 means for ever."
    )
    audit_retention_days: int = Field(90, ge=0, description="How long the audit trail is kept; 0 means for ever.")
    workers: int = Field(8, ge=1, le=64, description="Requests that delete objects at the same time.")
    listing_limit: int = Field(1000, ge=1, le=1000, description="Entries that one page of the listing engine has.")
    inventories: dict[str, str] = Field(
        {},
        description="Buckets that are walked by their S3 inventory reports: the folder in which S3 writes them, with a "
        "slash at its end, or one `manifest.json`; a path or `s3://BUCKET/KEY`.",
    )
    inventory_max_age_hours: float = Field(
        48, gt=0, description="A bucket is listed if its inventory report is older than this."
    )


LONGEST_GRACE_DAYS = 3650


class DeletionSettings(Section):
    """Two-phase deletion of data that no record refers to any more."""

    enabled: bool = Field(
        True, description="Whether pending deletes are carried out; otherwise they wait in the topic until they are."
    )
    topic: str = Field(
        "deletion",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$",
        description="The topic of pending deletes; the dead letters are in `TOPIC.dead-letters`.",
    )
    partitions: int = Field(4, ge=1, le=256, description="Partitions of a newly made topic.")
    parallelism: int = Field(4, ge=1, le=64, description="Threads that carry out pending deletes.")
    reconsume_seconds: float = Field(
        600, gt=0, le=604_800, description="A delete that failed is tried again after this."
    )
    max_retries: int = Field(
        10, ge=0, le=1000, description="A delete that failed after so many retries becomes a dead letter."
    )
    record_seconds: float = Field(
        30,
        ge=0,
        le=3600,
        description="How long after it was sent a pending delete may find that its data is still in use, before that "
        "is believed: whoever sent it drops the data from its record a moment later.",
    )
    grace_days: float = Field(
        0,
        ge=0,
        le=LONGEST_GRACE_DAYS,
        description="How long what lifecycle or a purge deletes for good is kept in the trash location, and can be "
        "brought back (`tidegate undelete`); 0: not at all. Pools and buckets may have a grace of their own "
        "(`tidegate deletion grace`).",
    )
    trash_location: str = Field(
        "",
        max_length=24,
        description="The location that keeps it. Without it nothing is deleted that has a grace.",
    )


class MovementSettings(Section):
    """Moving data between the pools and locations."""

    part_mb: int = Field(
        16,
        ge=5,
        le=512,
        description="Objects that are larger (MiB) are copied in parts of this size. A copy holds one part in memory.",
    )
    retry_seconds: tuple[float, ...] = Field(
        (5.0, 30.0, 120.0, 600.0),
        max_length=20,
        description="How long a copy waits that could not be made, after its first try, its second and so on; then it "
        "is given up.",
    )


class ReplicationSettings(Section):
    """Replication of versions to sites, which are locations."""

    enabled: bool = Field(
        True, description="Whether versions are replicated; otherwise what is to be replicated waits until it is."
    )
    retry_seconds: tuple[Annotated[float, Field(ge=0, le=86_400)], ...] = Field(
        (1.0, 5.0, 20.0, 60.0, 300.0),
        max_length=20,
        description="How long a version waits that could not be replicated, after its first try, its second and so on, "
        "lengthened by up to a half at random; then it has failed.",
    )
    failed_hours: float = Field(
        24, gt=0, le=8760, description="How long a failed version stays in the list of failures."
    )
    hold_failed: bool = Field(
        False,
        description="Whether lifecycle leaves versions alone whose replication has failed, as it does while it is "
        "pending.",
    )
    part_mb: int = Field(
        16,
        ge=5,
        le=512,
        description="Objects that are larger (MiB) are replicated in parts of this size. Each that is on its way holds "
        "one part in memory.",
    )


class SparkSettings(Section):
    """The Spark session in which passes are planned."""

    master: str = Field("local[*]", min_length=1, description="Where it runs: `local[*]`, or a cluster's address.")
    driver_memory: str = Field(
        "1g", pattern=r"^[1-9][0-9]*[mgMG]$", description="Memory of the driver; on `local` that is all there is."
    )
    shuffle_partitions: int = Field(0, ge=0, le=100_000, description="Partitions of joins; 0 means two per core.")
    secret: SecretStr = Field(
        SecretStr(""),
        description="The secret by which a standalone cluster's processes know each other (its own "
        "`spark.authenticate.secret`). Elsewhere Spark makes one for each session.",
    )
    idle_minutes: float = Field(10, gt=0, description="The session is ended when no pass came for so long.")
    job_idle_seconds: float = Field(
        60,
        ge=0,
        description="The process of audits, backfills and verifications, which has a session of its own, is ended when "
        "no other one was asked for for so long.",
    )
    options: dict[str, SecretStr] = Field(
        {}, description="Further settings of Spark by its own names, such as `spark.executor.memory`."
    )


class AuditSettings(Section):
    """Audits of locations."""

    orphan_grace_hours: float = Field(
        24, ge=0, description="Data that nothing refers to counts as an orphan when it is older than this."
    )


class LocationSettings(Section):
    """A location by its name: an S3 endpoint to which the data of objects moves. What stands here cannot be changed or
    removed by command."""

    endpoint: str = Field("", description="`https://HOST:PORT`, or `http://HOST:PORT`. Certificates are verified.")
    region: str = Field("us-east-1", min_length=1, description="Region that requests are signed for.")
    bucket: str = Field("", description="Bucket in which the data lies.")
    prefix: str = Field("", description="What the keys there begin with; it ends with a slash.")
    access_key: str = Field("", description="Access key.")
    secret_key: SecretStr = Field(SecretStr(""), description="Its secret.")
    storage_classes: tuple[str, ...] = Field(
        (), description="Storage classes whose objects move here; empty: one of the location's name."
    )
    ca_file: str = Field(
        "", description="PEM file with the authorities that its certificate is checked against; empty: the system's."
    )
    concurrency: int = Field(8, ge=1, le=256, description="Objects and parts on their way at a time, of one process.")
    bytes_per_second: int = Field(
        0, ge=0, description="Most bytes per second to and from there, of one process; 0: any."
    )

    def location(self, name: str, sealed_secret: str) -> Location:
        """As a record; older than all that were made by command."""
        return Location(
            name=name,
            endpoint=self.endpoint,
            bucket=self.bucket,
            access_key=self.access_key,
            secret=sealed_secret,
            created_at=0.0,
            region=self.region,
            prefix=complete_prefix(self.prefix),
            storage_classes=self.storage_classes or (name,),
            ca_file=self.ca_file,
            concurrency=self.concurrency,
            bytes_per_second=self.bytes_per_second,
        )


class LogSettings(Section):
    """Logs."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severity that is written.")
    format: Literal["json", "text"] = Field("text", description="One JSON object per line, or text for people.")
    access: Literal["file", "stdout", "syslog", "off"] = Field(
        "file", description="Where the access log goes, in combined format."
    )
    access_file: str = Field("log/access.log", description="Its file, relative to the data directory.")
    file_megabytes: float = Field(100, gt=0, description="A log file that has become this large is put aside.")
    kept_files: int = Field(10, ge=1, le=1000, description="Access logs put aside that are kept; of other logs one is.")
    syslog_address: str = Field("/dev/log", description="Socket or HOST:PORT (UDP) of the system log.")


class Settings(Section):
    """Everything. `settings.gateway.port` is `[gateway] port` in the file."""

    service: ServiceSettings = ServiceSettings()
    gateway: GatewaySettings = GatewaySettings()
    api: ApiSettings = ApiSettings()
    pools: PoolsSettings = PoolsSettings()
    tables: TablesSettings = TablesSettings()
    topics: TopicsSettings = TopicsSettings()
    metalog: MetalogSettings = MetalogSettings()
    storage: StorageSettings = StorageSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    deletion: DeletionSettings = DeletionSettings()
    movement: MovementSettings = MovementSettings()
    replication: ReplicationSettings = ReplicationSettings()
    spark: SparkSettings = SparkSettings()
    audit: AuditSettings = AuditSettings()
    locations: dict[str, LocationSettings] = {}
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _locations_can_be_used(self) -> Settings:
        made = [each.location(name, each.secret_key.get_secret_value()) for name, each in self.locations.items()]
        try:
            for location in made:
                check_location(location, made)
        except InvalidInput as error:
            raise ValueError(f"locations: {error}") from None
        return self


def section_model(section: str) -> type[BaseModel]:
    """What describes a section, or each of its parts."""
    return LocationSettings if section in BY_NAME else type(Settings.model_fields[section].default)


def load(data: Path, *, config: Path | None = None, overrides: tuple[str, ...] = ()) -> Settings:
    """The settings of the service whose data directory is `data`."""
    values: dict[str, Any] = {}
    for _, layer in _layers(data, config, overrides):
        _merge(values, layer)
    try:
        return Settings(**values)
    except ValidationError as error:
        raise InvalidInput(_readable(error)) from None


def sources(data: Path, *, config: Path | None = None, overrides: tuple[str, ...] = ()) -> dict[str, str]:
    """Where each setting that is not a default comes from, by `section.name`."""
    found = {}
    for source, layer in _layers(data, config, overrides):
        for section, values in layer.items():
            for name in values if isinstance(values, dict) else ():
                found[f"{section}.{name}"] = source
    return found


def _layers(data: Path, config: Path | None, overrides: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The sources from the weakest to the strongest, each with a name for people."""
    layers = []
    file = config or data / FILE_NAME
    if config or file.exists():
        layers.append((str(file), _from_file(file)))
    layers.append(("environment", _from_environment()))
    layers.extend(("--set", _parse_override(text)) for text in overrides)
    return layers


def _from_environment() -> dict[str, Any]:
    if not any(name.upper().startswith(_ENVIRONMENT_PREFIX) for name in os.environ):
        return {}
    # Every process would take longer to start for it, and hardly any needs it.
    from pydantic_settings import EnvSettingsSource, SettingsError

    reads: Any = EnvSettingsSource
    try:
        found: dict[str, Any] = reads(Settings, env_prefix=_ENVIRONMENT_PREFIX, env_nested_delimiter="__")()
        return found
    except SettingsError as error:
        raise InvalidInput(f"environment: {error.__cause__ or error} ({error})") from None


def dump(settings: Settings) -> str:
    """JSON with every value, secrets included, that `restore` reads back."""
    return json.dumps(_revealed(settings.model_dump()))


def restore(text: str) -> Settings:
    return Settings(**json.loads(text))


def _revealed(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _revealed(item) for name, item in value.items()}
    return value


def _from_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidInput(f"cannot read the settings file {file}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the settings file {file} is not valid TOML: {error}") from None


def _parse_override(text: str) -> dict[str, Any]:
    path, found, raw = text.partition("=")
    section, dot, name = path.strip().partition(".")
    if not (found and dot and section and name):
        raise InvalidInput(f"--set takes SECTION.NAME=VALUE, not {text!r}")
    value = _parse_value(raw.strip())
    if section in BY_NAME and "." in name:
        name, _, field = name.partition(".")
        value = {field: value}
    return {section: {name: value}}


def _parse_value(raw: str) -> Any:
    if raw[:1] in "[{":
        try:
            return json.loads(raw)
        except ValueError:
            raise InvalidInput(f"{raw!r} is not a valid JSON list") from None
    return raw


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _readable(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"]) or "settings"
        what = "there is no such setting" if problem["type"] == "extra_forbidden" else problem["msg"]
        lines.append(f"{where}: {what}")
    return "; ".join(lines)
