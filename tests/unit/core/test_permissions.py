"""The whole table: every operation under every key policy and every bucket policy."""

import pytest

from tidegate.core.permissions import allowed
from tidegate.core.records import BucketPolicy, KeyPolicy
from tidegate.gateway.operations.table import OPERATIONS

# Per operation: what a readonly and a writeonly key may do, and what upload, download and public open to everybody.
# A readwrite key may do everything and the policy none opens nothing.
TABLE = """
                             readonly writeonly upload download public
ListBuckets                  yes      no        no     no       no
CreateBucket                 no       yes       no     no       no
DeleteBucket                 no       yes       no     no       no
HeadBucket                   yes      no        no     yes      yes
ListObjects                  yes      no        no     yes      yes
ListObjectsV2                yes      no        no     yes      yes
ListObjectVersions           yes      no        no     yes      yes
ListMultipartUploads         no       yes       yes    no       yes
DeleteObjects                no       yes       yes    no       yes
GetBucketLocation            yes      no        no     no       no
GetBucketAcl                 yes      no        no     no       no
PutBucketAcl                 no       yes       no     no       no
GetBucketPolicy              yes      no        no     no       no
GetBucketPolicyStatus        yes      no        no     no       no
PutBucketPolicy              no       no        no     no       no
DeleteBucketPolicy           no       no        no     no       no
GetBucketAbac                yes      no        no     no       no
GetBucketAccelerateConfiguration  yes no        no     no       no
GetBucketAnalyticsConfiguration   yes no        no     no       no
ListBucketAnalyticsConfigurations yes no        no     no       no
GetBucketEncryption          yes      no        no     no       no
GetBucketIntelligentTieringConfiguration   yes no no   no       no
ListBucketIntelligentTieringConfigurations yes no no   no       no
GetBucketInventoryConfiguration   yes no        no     no       no
ListBucketInventoryConfigurations yes no        no     no       no
GetBucketLogging             yes      no        no     no       no
GetBucketMetadataConfiguration    yes no        no     no       no
GetBucketMetadataTableConfiguration yes no      no     no       no
GetBucketMetricsConfiguration     yes no        no     no       no
ListBucketMetricsConfigurations   yes no        no     no       no
GetBucketNotificationConfiguration yes no       no     no       no
GetBucketOwnershipControls   yes      no        no     no       no
PutBucketOwnershipControls   no       yes       no     no       no
GetPublicAccessBlock         yes      no        no     no       no
GetBucketReplication         yes      no        no     no       no
PutBucketReplication         no       no        no     no       no
DeleteBucketReplication      no       no        no     no       no
GetBucketRequestPayment      yes      no        no     no       no
PutBucketRequestPayment      no       yes       no     no       no
GetBucketWebsite             yes      no        no     no       no
GetBucketVersioning          yes      no        no     no       no
PutBucketVersioning          no       yes       no     no       no
GetBucketTagging             yes      no        no     no       no
PutBucketTagging             no       yes       no     no       no
DeleteBucketTagging          no       yes       no     no       no
GetBucketCors                yes      no        no     no       no
PutBucketCors                no       yes       no     no       no
DeleteBucketCors             no       yes       no     no       no
GetBucketLifecycleConfiguration  yes  no        no     no       no
PutBucketLifecycleConfiguration  no   yes       no     no       no
DeleteBucketLifecycle        no       yes       no     no       no
GetObjectLockConfiguration   yes      no        no     no       no
PutObjectLockConfiguration   no       yes       no     no       no
GetObject                    yes      no        no     yes      yes
HeadObject                   yes      no        no     yes      yes
GetObjectAttributes          yes      no        no     yes      yes
GetObjectTagging             yes      no        no     yes      yes
GetObjectAcl                 yes      no        no     no       no
PutObjectAcl                 no       yes       no     no       no
GetObjectRetention           yes      no        no     no       no
GetObjectLegalHold           yes      no        no     no       no
PutObject                    no       yes       yes    no       yes
PostObject                   no       yes       yes    no       yes
DeleteObject                 no       yes       yes    no       yes
PutObjectTagging             no       yes       yes    no       yes
DeleteObjectTagging          no       yes       yes    no       yes
PutObjectRetention           no       yes       no     no       no
PutObjectLegalHold           no       yes       no     no       no
CreateMultipartUpload        no       yes       yes    no       yes
UploadPart                   no       yes       yes    no       yes
CompleteMultipartUpload      no       yes       yes    no       yes
AbortMultipartUpload         no       yes       yes    no       yes
ListParts                    no       yes       yes    no       yes
CopyObject                   no       no        no     no       yes
UploadPartCopy               no       no        no     no       yes
"""
COLUMNS, *ROWS = [line.split() for line in TABLE.strip().splitlines()]


def test_table_lists_every_operation_of_clients_but_the_preflight():
    of_clients = {name for name, operation in OPERATIONS.items() if not operation.is_internal}
    assert sorted(row[0] for row in ROWS) == sorted(of_clients - {"CorsPreflight"})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_policies_give_the_answers_of_the_table(row):
    operation = OPERATIONS[row[0]]
    for column, answer in zip(COLUMNS, row[1:], strict=True):
        if column in ("readonly", "writeonly"):
            verdicts = {
                allowed(operation, key_policy=KeyPolicy(column), bucket_policy=policy)
                for policy in (None, *BucketPolicy)
            }
        else:
            verdicts = {allowed(operation, key_policy=None, bucket_policy=BucketPolicy(column))}
        assert verdicts == {answer == "yes"}, column


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_readwrite_key_may_do_everything(operation):
    for policy in (None, *BucketPolicy):
        assert allowed(operation, key_policy=KeyPolicy.READWRITE, bucket_policy=policy)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_nothing_is_open_without_a_key_where_the_policy_is_none_or_there_is_no_bucket(row):
    operation = OPERATIONS[row[0]]
    assert not allowed(operation, key_policy=None, bucket_policy=BucketPolicy.NONE)
    assert not allowed(operation, key_policy=None, bucket_policy=None)


@pytest.mark.parametrize("policy", BucketPolicy)
def test_preflight_is_open_on_every_bucket_since_browsers_send_it_without_a_key(policy):
    assert allowed(OPERATIONS["CorsPreflight"], key_policy=None, bucket_policy=policy)
