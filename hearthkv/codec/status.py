"""`google.rpc.Status` with an ErrorInfo, as it travels in a call's trailing metadata. Pure."""

from collections.abc import Iterable

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

DETAILS_TRAILER = "grpc-status-details-bin"
"""Metadata key under which gRPC carries a serialised `google.rpc.Status`."""

ERROR_DOMAIN = "hearthkv"


def encode_status(code: int, text: str, reason: str) -> bytes:
    """
    Return a status as bytes.

    Args:
        code: Number of the gRPC status code.
        text: What the caller reads.
        reason: Stable name of the error, for programs.
    """
    packed = any_pb2.Any()
    packed.Pack(ErrorInfo(reason=reason, domain=ERROR_DOMAIN))
    return Status(code=code, message=text, details=[packed]).SerializeToString()


def decode_reason(trailers: Iterable[tuple[str, str | bytes]]) -> str:
    """
    Return the reason that a failed call's trailing metadata name.

    Empty if they name none of ours, or can't be parsed: a proxy may write there, too.
    """
    try:
        for key, value in trailers:
            if key == DETAILS_TRAILER and isinstance(value, bytes):
                for packed in Status.FromString(value).details:
                    info = ErrorInfo()
                    if packed.Unpack(info) and info.domain == ERROR_DOMAIN:
                        return info.reason
    except DecodeError:
        return ""
    return ""
