"""The reason of an error survives the trailers, and foreign trailers do no harm."""

import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec.status import DETAILS_TRAILER, ERROR_DOMAIN, decode_reason, encode_status


def status_of(*details) -> bytes:
    packed = []
    for detail in details:
        packed.append(any_pb2.Any())
        packed[-1].Pack(detail)
    return Status(details=packed).SerializeToString()


@given(st.from_regex(r"[A-Z_]{1,40}", fullmatch=True))
def test_a_reason_is_found_again(reason):
    trailers = [("other", "x"), (DETAILS_TRAILER, encode_status(3, "text", reason))]
    assert decode_reason(trailers) == reason


def test_code_and_text_are_those_of_the_call():
    status = Status.FromString(encode_status(8, "tier is full", "NO_ROOM"))
    assert (status.code, status.message) == (8, "tier is full")


@pytest.mark.parametrize(
    "trailers",
    [
        pytest.param([], id="none"),
        pytest.param([("grpc-message", "x")], id="others"),
        pytest.param([(DETAILS_TRAILER, "text")], id="text"),
        pytest.param([(DETAILS_TRAILER, b"\xff\xff")], id="garbage"),
        pytest.param([(DETAILS_TRAILER, status_of())], id="no-detail"),
        pytest.param([(DETAILS_TRAILER, status_of(duration_pb2.Duration()))], id="other-detail"),
        pytest.param(
            [(DETAILS_TRAILER, status_of(ErrorInfo(reason="X", domain="example.org")))],
            id="other-domain",
        ),
        pytest.param(
            [
                (
                    DETAILS_TRAILER,
                    Status(
                        details=[
                            any_pb2.Any(
                                type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff"
                            )
                        ]
                    ).SerializeToString(),
                )
            ],
            id="damaged-detail",
        ),
    ],
)
def test_trailers_of_others_name_no_reason(trailers):
    assert decode_reason(trailers) == ""


def test_our_reason_is_found_behind_those_of_others():
    ours = ErrorInfo(reason="BAD_KEYS", domain=ERROR_DOMAIN)
    others = ErrorInfo(reason="X", domain="example.org")
    assert decode_reason([(DETAILS_TRAILER, status_of(others, ours))]) == "BAD_KEYS"
