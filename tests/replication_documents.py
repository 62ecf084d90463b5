"""Replication configurations in XML."""

from __future__ import annotations

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
ROLE = "<Role>arn:aws:iam::123456789012:role/replication</Role>"
MARKERS_OFF = "<DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication>"
MARKERS_ON = MARKERS_OFF.replace("Disabled", "Enabled")
TAG = "<Tag><Key>a</Key><Value>1</Value></Tag>"


def destination(*sites: str, bucket: str = "arn:aws:s3:::copies", more: str = "") -> str:
    named = f"<StorageClass>{','.join(sites)}</StorageClass>" if sites else ""
    return f"<Destination><Bucket>{bucket}</Bucket>{named}{more}</Destination>"


def rule(
    to: str = destination("near"),
    *,
    id: str = "r",
    status: str = "Enabled",
    where: str = "<Filter/>",
    priority: int | None = 1,
    markers: str = MARKERS_OFF,
    more: str = "",
) -> str:
    given = f"<ID>{id}</ID>" if id else ""
    given += f"<Priority>{priority}</Priority>" if priority is not None else ""
    return f"<Rule>{given}{where}<Status>{status}</Status>{markers}{more}{to}</Rule>"


def old_rule(prefix: str, to: str = destination("near"), *, id: str = "r") -> str:
    return rule(to, id=id, where=f"<Prefix>{prefix}</Prefix>", priority=None, markers="")


def document(*rules: str, role: str = ROLE) -> bytes:
    inner = "\n  ".join(rules)
    text = f'<?xml version="1.0"?>\n<ReplicationConfiguration {NAMESPACE}>{role}{inner}</ReplicationConfiguration>\n'
    return text.encode()
