"""What an address is."""

import pytest

from hearthkv.core.address import check_host_port, split_address
from hearthkv.core.errors import BadRequestError, StartupError


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


@pytest.mark.parametrize("address", ["127.0.0.1:7400", "node-1.example:1", "[::1]:65535"])
def test_a_peer_may_name_a_host_and_a_port(address):
    assert check_host_port(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:0",
        "host:65536",
        "::1:80",
        "unix:/x",
        "unix:/x:80",
        "dns:///h:80",
        "h:80\n",
    ],
)
def test_a_peer_may_name_nothing_else(address):
    with pytest.raises(BadRequestError, match=r"must be host:port with a port in 1\.\.65535"):
        check_host_port(address)
