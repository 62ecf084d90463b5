"""Sub-resources of buckets to which the answer is always the same: S3's own for what was never configured.

Tools that probe a bucket ask for them, and go on when they get the answer that they know.
"""

from __future__ import annotations

from typing import NamedTuple
from xml.etree.ElementTree import Element, fromstring

from tidegate.core.documents import document_xml
from tidegate.core.owners_acl import OWNERSHIP
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element


class FixedAnswer(NamedTuple):
    """GET is answered with an error, or with a document of that root and content. `chosen_by` is the parameter that
    tells the operation from another one of the sub-resource. `restated_by` is the operation that may put the very
    document that GET shows, and nothing else."""

    operation: str
    subresource: str
    error: str = ""
    root: str = ""
    content: str = ""
    chosen_by: str = ""
    restated_by: str = ""

    def document(self) -> bytes:
        return f'{DECLARATION}<{self.root} xmlns="{NAMESPACE}">{self.content}</{self.root}>'.encode()

    def is_restated(self, document: Element) -> bool:
        return document_xml(document) == document_xml(fromstring(self.document()))


def _list_and_items(subresource: str, kind: str) -> tuple[FixedAnswer, FixedAnswer]:
    """A bucket can have several configurations of that kind, each with an id."""
    nothing = element("IsTruncated", "false")
    return (
        FixedAnswer(f"ListBucket{kind}s", subresource, root=f"ListBucket{kind}Result", content=nothing),
        FixedAnswer(f"GetBucket{kind}", subresource, error="NoSuchConfiguration", chosen_by="id"),
    )


FIXED_ANSWERS = (
    FixedAnswer("GetBucketAbac", "abac", root="AbacStatus", content=element("Status", "Disabled")),
    FixedAnswer("GetBucketAccelerateConfiguration", "accelerate", root="AccelerateConfiguration"),
    *_list_and_items("analytics", "AnalyticsConfiguration"),
    FixedAnswer("GetBucketEncryption", "encryption", error="ServerSideEncryptionConfigurationNotFoundError"),
    *_list_and_items("intelligent-tiering", "IntelligentTieringConfiguration"),
    *_list_and_items("inventory", "InventoryConfiguration"),
    FixedAnswer("GetBucketLocation", "location", root="LocationConstraint"),
    FixedAnswer("GetBucketLogging", "logging", root="BucketLoggingStatus"),
    FixedAnswer("GetBucketMetadataConfiguration", "metadataConfiguration", error="MetadataConfigurationNotFound"),
    FixedAnswer("GetBucketMetadataTableConfiguration", "metadataTable", error="MetadataConfigurationNotFound"),
    *_list_and_items("metrics", "MetricsConfiguration"),
    FixedAnswer("GetBucketNotificationConfiguration", "notification", root="NotificationConfiguration"),
    FixedAnswer(
        "GetBucketOwnershipControls",
        "ownershipControls",
        root="OwnershipControls",
        content=f"<Rule>{element('ObjectOwnership', OWNERSHIP)}</Rule>",
        restated_by="PutBucketOwnershipControls",
    ),
    FixedAnswer("GetPublicAccessBlock", "publicAccessBlock", error="NoSuchPublicAccessBlockConfiguration"),
    FixedAnswer(
        "GetBucketRequestPayment",
        "requestPayment",
        root="RequestPaymentConfiguration",
        content=element("Payer", "BucketOwner"),
        restated_by="PutBucketRequestPayment",
    ),
    FixedAnswer("GetBucketWebsite", "website", error="NoSuchWebsiteConfiguration"),
)
