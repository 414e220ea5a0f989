"""Tests of hearthkv/client/router_names.py."""

import pytest

from hearthkv.client.router_names import ADDRESSES_MAX, RouterNames, resolve_host


class Directory:
    """Knows hosts, and can forget them."""

    def __init__(self, **hosts: list[str]) -> None:
        self.hosts = hosts
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        if host not in self.hosts:
            raise OSError(host)
        return self.hosts[host]


async def test_addresses_are_what_they_are_and_nobody_is_asked():
    directory = Directory()
    named = ["127.0.0.1:7400", "[::1]:7401", "unix:/run/router.sock", "127.0.0.1:7400"]
    names = RouterNames(named, directory)
    assert names.is_fixed
    assert names.last_addresses() == await names.addresses() == named[:3]
    assert directory.asked == []


async def test_a_name_stands_for_all_its_addresses_each_once_and_in_order():
    directory = Directory(routers=["10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.2"])
    names = RouterNames(["10.0.0.2:7400", "routers:7400"], directory)
    assert not names.is_fixed
    assert names.last_addresses() == ["10.0.0.2:7400"]
    expected = ["10.0.0.2:7400", "10.0.0.1:7400", "10.0.0.3:7400"]
    assert await names.addresses() == expected
    assert names.last_addresses() == expected
    assert directory.asked == [("routers", 7400)]


async def test_a_router_that_has_an_address_of_either_kind_is_one_router():
    directory = Directory(both=["fd00::1", "10.0.0.1"], six=["fd00::2", "fd00::1"])
    assert await RouterNames(["both:1"], directory).addresses() == ["10.0.0.1:1"]
    assert await RouterNames(["six:1"], directory).addresses() == ["[fd00::1]:1", "[fd00::2]:1"]


async def test_a_name_that_can_not_be_resolved_keeps_its_last_addresses():
    directory = Directory(one=["10.0.0.1"], two=["10.0.0.2"])
    names = RouterNames(["one:1", "two:2"], directory)
    await names.addresses()
    del directory.hosts["one"]
    directory.hosts["two"] = ["10.0.0.3"]
    assert await names.addresses() == ["10.0.0.1:1", "10.0.0.3:2"]


async def test_addresses_without_end_are_cut():
    directory = Directory(many=[f"10.0.{index // 256}.{index % 256}" for index in range(300)])
    assert len(await RouterNames(["many:1"], directory).addresses()) == ADDRESSES_MAX


async def test_the_system_knows_this_host():
    assert "127.0.0.1" in await resolve_host("127.0.0.1", 7400)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300])
async def test_a_host_that_is_none_has_no_address(host: str):
    assert await RouterNames([f"{host}:1"]).addresses() == []
