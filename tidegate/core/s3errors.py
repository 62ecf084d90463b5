"""S3's errors: their codes, statuses and usual messages, and their XML.

Every refusal that an S3 client sees is an `S3Error`; its code must stand in the table here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.errors import TidegateError
from tidegate.core.xml_writer import DECLARATION, element

CODES: dict[str, tuple[int, str]] = {
    "AccessControlListNotSupported": (400, "The bucket does not allow ACLs"),
    "AccessDenied": (403, "Access Denied"),
    "AccessForbidden": (403, "CORSResponse: This CORS request is not allowed."),
    "AuthorizationHeaderMalformed": (400, "The authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The authorization query parameters are malformed."),
    "BadDigest": (400, "The Content-MD5 or checksum value that you specified did not match what the server received."),
    "BadRequest": (400, "The request is not well-formed HTTP."),
    "BucketAlreadyExists": (409, "The requested bucket name is not available. Choose another name."),
    "BucketAlreadyOwnedByYou": (409, "You already own this bucket."),
    "BucketNotEmpty": (409, "The bucket you tried to delete is not empty."),
    "EntityTooLarge": (400, "Your upload exceeds the maximum allowed size."),
    "EntityTooSmall": (400, "Your upload is smaller than the minimum allowed size."),
    "ExpiredToken": (400, "The provided token has expired."),
    "IncompleteBody": (400, "You did not provide the number of bytes specified by the Content-Length header."),
    "InternalError": (500, "We encountered an internal error. Please try again."),
    "InvalidAccessKeyId": (403, "The access key you provided does not exist or is not valid any more."),
    "InvalidArgument": (400, "Invalid argument."),
    "InvalidBucketName": (400, "The specified bucket is not valid."),
    "InvalidBucketState": (409, "The request is not valid for the current state of the bucket."),
    "InvalidChunk": (400, "The framing of the aws-chunked body is malformed."),
    "InvalidChunkSizeError": (400, "The size of a chunk in the aws-chunked body is malformed."),
    "InvalidDigest": (400, "The Content-MD5 or checksum value that you specified is not valid."),
    "InvalidLocationConstraint": (400, "The specified location constraint is not valid."),
    "InvalidPart": (400, "One or more of the specified parts could not be found or did not match."),
    "InvalidPartNumber": (416, "The requested partnumber is not satisfiable"),
    "InvalidPartOrder": (400, "The list of parts was not in ascending order."),
    "InvalidPolicyDocument": (400, "The policy document of the form is not valid."),
    "InvalidRange": (416, "The requested range is not satisfiable."),
    "InvalidRequest": (400, "Invalid request."),
    "InvalidTag": (400, "The tag provided was not a valid tag."),
    "InvalidToken": (400, "The provided token is malformed or otherwise not valid."),
    "InvalidURI": (400, "Couldn't parse the specified URI."),
    "KeyTooLongError": (400, "Your key is too long: at most 1024 bytes of UTF-8."),
    "MalformedPolicy": (400, "The policy is not valid JSON or not a valid bucket policy."),
    "MalformedPOSTRequest": (400, "The body of your POST request is not well-formed multipart/form-data."),
    "MalformedTrailerError": (400, "The request's trailer is malformed or is not what x-amz-trailer announced."),
    "MalformedXML": (400, "The XML you provided was not well-formed or did not validate against our schema."),
    "MaxMessageLengthExceeded": (400, "Your request was too big."),
    "MaxPostPreDataLengthExceeded": (400, "Your POST request fields preceding the upload file were too large."),
    "MetadataConfigurationNotFound": (404, "The metadata configuration does not exist."),
    "MethodNotAllowed": (405, "The specified method is not allowed against this resource."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "MissingRequestBodyError": (400, "Request body is empty."),
    "MissingSecurityHeader": (400, "Your request is missing a required header."),
    "NoSuchBucket": (404, "The specified bucket does not exist."),
    "NoSuchBucketPolicy": (404, "The bucket policy does not exist"),
    "NoSuchCORSConfiguration": (404, "The CORS configuration does not exist."),
    "NoSuchConfiguration": (404, "The specified configuration does not exist."),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchLifecycleConfiguration": (404, "The lifecycle configuration does not exist."),
    "NoSuchPublicAccessBlockConfiguration": (404, "The public access block configuration was not found"),
    "NoSuchUpload": (404, "The specified multipart upload does not exist."),
    "NoSuchVersion": (404, "The specified version does not exist."),
    "NoSuchWebsiteConfiguration": (404, "The specified bucket does not have a website configuration"),
    "NotImplemented": (501, "A header or sub-resource of this request implies functionality that is not implemented."),
    "OperationAborted": (409, "A conflicting conditional operation is in progress against this resource. Try again."),
    "PreconditionFailed": (412, "At least one of the preconditions you specified did not hold."),
    "ReplicationConfigurationNotFoundError": (404, "The replication configuration was not found"),
    "RequestHeaderSectionTooLarge": (400, "The request line and headers exceed the maximum allowed size."),
    "RequestTimeTooSkewed": (403, "The difference between the request time and the server's time is too large."),
    "RequestTimeout": (400, "The connection was not read from or written to within the timeout period."),
    "ServerSideEncryptionConfigurationNotFoundError": (
        404,
        "The server side encryption configuration was not found",
    ),
    "ServiceUnavailable": (503, "The store behind this bucket is not available now. Please try again."),
    "SignatureDoesNotMatch": (
        403,
        "The request signature we calculated does not match the signature you provided. "
        "Check your secret key and signing method.",
    ),
    "SlowDown": (503, "Please reduce your request rate."),
    "TooManyBuckets": (400, "You have attempted to create more buckets than allowed."),
    "UnexpectedContent": (400, "This request does not support content"),
    "UnsupportedMediaType": (415, "The media type of the request's body is not supported."),
    "XAmzContentSHA256Mismatch": (
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
}


class S3Error(TidegateError):
    """A refusal as an S3 client sees it.

    `headers` go onto the response (for example Retry-After); `fields` are further elements of the XML
    (for example BucketName). `closes` says that the connection cannot be used after it.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        self.status, usual = CODES[code]
        self.code = code
        self.message = message or usual
        self.headers: Mapping[str, str] = headers or {}
        self.fields: Mapping[str, str] = fields or {}
        self.closes = closes
        super().__init__(f"{code}: {self.message}")


def error_xml(error: S3Error, *, resource: str, request_id: str, host_id: str = "") -> bytes:
    """The body of an error response. The resource may hold any characters of a key."""
    parts = [DECLARATION, "<Error>", element("Code", error.code), element("Message", error.message)]
    parts.extend(element(name, text) for name, text in error.fields.items())
    parts.append(element("Resource", resource))
    parts.append(element("RequestId", request_id))
    if host_id:
        parts.append(element("HostId", host_id))
    parts.append("</Error>")
    return "".join(parts).encode()
