"""What an address is."""

import pytest

from hearthkv.core.address import split_address
from hearthkv.core.errors import StartupError


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7400", ("127.0.0.1", 7400)),
        ("node-1.example:0", ("node-1.example", 0)),
        ("[::1]:65535", ("::1", 65_535)),
        ("::1:80", ("::1", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(address, expected):
    assert split_address(address) == expected


@pytest.mark.parametrize(
    "address",
    ["", "7400", ":7400", "host", "host:", "host:x", "host:65536", "host:-1", "h:8\u0663"],
)
def test_anything_else_is_refused(address):
    with pytest.raises(StartupError) as caught:
        split_address(address)
    assert str(caught.value) == (
        f"address is {address!r}, must be host:port with a port in 0..65535"
    )
