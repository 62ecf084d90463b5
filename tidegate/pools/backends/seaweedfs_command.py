"""How `weed server` is called, and what it finds in its directory.

It runs a master, a volume server, a filer and an S3 door in one process. They talk to each other over ports of
127.0.0.1; the service talks to the S3 door over a Unix socket. The door knows one credential.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence

from tidegate.pools.backends.base import LEAST_FREE_BYTES
from tidegate.pools.backends.certificates import Certificates
from tidegate.pools.backends.ports_range import HOST

DOORS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
# What the master remembers belongs to the ports it had: it learns the volumes anew from the volume server.
FRESH_DIRECTORIES = ("master",)
KEPT_DIRECTORIES = ("volumes", "filer")

_TOKEN_KEYS = ("JWT_SIGNING_KEY", "JWT_SIGNING_READ_KEY", "JWT_FILER_SIGNING_KEY", "JWT_FILER_SIGNING_READ_KEY")
_FILER = """\
[leveldb2]
enabled = true
dir = "filer"
"""
_MASTER = """\
[master.volume_growth]
copy_1 = 1
copy_2 = 1
copy_3 = 1
copy_other = 1
"""


def credential(access_key: str, secret: str) -> bytes:
    """The S3 door's configuration: one identity that may do everything, and no anonymous one."""
    identity = {
        "name": "service",
        "account": {"id": "pool"},
        "credentials": [{"accessKey": access_key, "secretKey": secret}],
        "actions": ["Admin"],
    }
    return json.dumps({"accounts": [{"id": "pool", "displayName": "pool"}], "identities": [identity]}).encode()


def files(certificates: Certificates | None) -> dict[str, str]:
    """They also keep the files of the same names in /etc/seaweedfs and the owner's home out."""
    return {"filer.toml": _FILER, "master.toml": _MASTER, "security.toml": _security(certificates)}


def environment(memory_limit_mb: int) -> dict[str, str]:
    """With keys for the tokens that the parts of the server show each other."""
    tokens = {f"WEED_{name}": secrets.token_hex(32) for name in _TOKEN_KEYS}
    return tokens | ({"GOMEMLIMIT": f"{memory_limit_mb}MiB"} if memory_limit_mb else {})


def arguments(ports: Mapping[str, int], *, socket: str, credential_file: str) -> Sequence[str]:
    numbers = [
        f"-{door.removesuffix('.grpc')}.port{'.grpc' if door.endswith('.grpc') else ''}={port}"
        for door, port in ports.items()
    ]
    return [
        "-logtostderr=true",
        "server",
        f"-ip={HOST}",
        f"-ip.bind={HOST}",
        "-filer=true",
        "-s3=true",
        *numbers,
        "-dir=volumes",
        "-master.dir=master",
        # Alone: no election to wait for.
        "-master.peers=none",
        "-master.telemetry=false",
        # Volumes grow as they are needed, at least one per bucket: free disk space is the limit, not their number.
        "-volume.max=100000",
        "-master.volumeSizeLimitMB=10240",
        "-volume.preStopSeconds=0",
        # With less, it takes its volumes for read-only. By default that is a hundredth of the disk, however large.
        f"-volume.minFreeSpace={LEAST_FREE_BYTES >> 20}MiB",
        "-filer.disableHttp=true",
        "-filer.localSocket=filer.sock",
        f"-s3.localSocket={socket}",
        f"-s3.config={credential_file}",
        "-s3.iam=false",
        "-s3.autoCreateBucket=false",
        "-s3.allowDeleteBucketNotEmpty=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]


def _security(certificates: Certificates | None) -> str:
    """Without certificates nothing: keys are in the environment. With them every part asks the others for one."""
    if certificates is None:
        return "# Keys are in the environment.\n"
    three = f'ca = "{certificates.authority}"\ncert = "{certificates.certificate}"\nkey = "{certificates.key}"\n'
    parts = [f'[grpc]\nca = "{certificates.authority}"\n']
    parts += [f"[grpc.{part}]\n{three}" for part in ("master", "volume", "filer", "s3", "client")]
    parts += [f"[https.{part}]\n{three}" for part in ("master", "volume", "filer")]
    return "\n".join([*parts, f"[https.client]\nenabled = true\n{three}"])
