"""The messages of the Remote Execution API's cache, as far as they are used here.

Field numbers and types are those of the public definitions: remote_execution.proto (package
build.bazel.remote.execution.v2), google/bytestream/bytestream.proto, google/rpc/status.proto. Other
fields of a message are passed over when it is read. The messages live in a pool of their own, so
that a program which has the full definitions loaded is not disturbed.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

EXECUTION = "build.bazel.remote.execution.v2"
BYTESTREAM = "google.bytestream"

# Message -> "number name type" of its fields; `*` marks repeated ones, a capital a message.
FIELDS: dict[str, str] = {
    "Digest": "1 hash string, 2 size_bytes int64",
    "Action": "9 salt bytes",
    "OutputFile": "1 path string, 2 digest Digest, 5 contents bytes",
    "ActionResult": "2 output_files *OutputFile, 4 exit_code int32",
    "GetActionResultRequest": "1 instance_name string, 2 action_digest Digest",
    "UpdateActionResultRequest": (
        "1 instance_name string, 2 action_digest Digest, 3 action_result ActionResult"
    ),
    "FindMissingBlobsRequest": "1 instance_name string, 2 blob_digests *Digest",
    "FindMissingBlobsResponse": "2 missing_blob_digests *Digest",
    "BatchUpdateBlobsRequest": "1 instance_name string, 2 requests *BlobUpdate",
    "BatchUpdateBlobsResponse": "1 responses *BlobUpdated",
    "BatchReadBlobsRequest": "1 instance_name string, 2 digests *Digest",
    "BatchReadBlobsResponse": "1 responses *BlobRead",
    # Messages within the batch messages, by names of our own.
    "BlobUpdate": "1 digest Digest, 2 data bytes",
    "BlobUpdated": "1 digest Digest, 2 status Status",
    "BlobRead": "1 digest Digest, 2 data bytes, 3 status Status",
    "Status": "1 code int32, 2 message string",  # google.rpc.Status
    "GetCapabilitiesRequest": "1 instance_name string",
    "ServerCapabilities": "1 cache_capabilities CacheCapabilities",
    "CacheCapabilities": (
        "1 digest_functions *int32, 2 action_cache_update_capabilities UpdateCapabilities, "
        "4 max_batch_total_size_bytes int64"
    ),
    "UpdateCapabilities": "1 update_enabled bool",
    "ReadRequest": "1 resource_name string, 2 read_offset int64, 3 read_limit int64",
    "ReadResponse": "10 data bytes",
    "WriteRequest": (
        "1 resource_name string, 2 write_offset int64, 3 finish_write bool, 10 data bytes"
    ),
    "WriteResponse": "1 committed_size int64",
}
SHA256 = 1  # of DigestFunction

# Method -> its path, what is sent and what is answered.
METHODS: dict[str, tuple[str, str, str]] = {
    "capabilities": (
        f"/{EXECUTION}.Capabilities/GetCapabilities",
        "GetCapabilitiesRequest",
        "ServerCapabilities",
    ),
    "result": (
        f"/{EXECUTION}.ActionCache/GetActionResult",
        "GetActionResultRequest",
        "ActionResult",
    ),
    "update": (
        f"/{EXECUTION}.ActionCache/UpdateActionResult",
        "UpdateActionResultRequest",
        "ActionResult",
    ),
    "missing": (
        f"/{EXECUTION}.ContentAddressableStorage/FindMissingBlobs",
        "FindMissingBlobsRequest",
        "FindMissingBlobsResponse",
    ),
    "write": (
        f"/{EXECUTION}.ContentAddressableStorage/BatchUpdateBlobs",
        "BatchUpdateBlobsRequest",
        "BatchUpdateBlobsResponse",
    ),
    "read": (
        f"/{EXECUTION}.ContentAddressableStorage/BatchReadBlobs",
        "BatchReadBlobsRequest",
        "BatchReadBlobsResponse",
    ),
    "stream_in": (f"/{BYTESTREAM}.ByteStream/Read", "ReadRequest", "ReadResponse"),
    "stream_out": (f"/{BYTESTREAM}.ByteStream/Write", "WriteRequest", "WriteResponse"),
}


@functools.cache
def messages() -> Any:
    """The message classes by name. ImportError where protobuf is not installed."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="gristmill/reapi.proto", package="gristmill", syntax="proto3"
    )
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            number, word, kind = field.split()
            label = kinds.LABEL_REPEATED if kind[0] == "*" else kinds.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            added = message.field.add(name=word, number=int(number), label=label)
            if kind in FIELDS:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".gristmill.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"gristmill.{name}") for name in FIELDS}
    return SimpleNamespace(**{n: message_factory.GetMessageClass(d) for n, d in found.items()})
