"""Tests of `hearthkv.datapath.redis_place`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import SettingsError
from hearthkv.datapath.redis_place import RedisPlace, parse_place

LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20)
SECRETS = st.fixed_dictionaries(
    {"username": st.text(), "password": st.text(), "database": st.integers(0, 99)}
)
UNIX_PLACES = st.builds(
    lambda path, rest: RedisPlace(path=f"/{path}", **rest),
    st.text(min_size=1).filter(lambda path: path.strip("/") == path),
    SECRETS,
)
TCP_PLACES = st.builds(
    lambda host, port, is_tls, ca_file, rest: RedisPlace(
        host=host, port=port, is_tls=is_tls, ca_file=ca_file, **rest
    ),
    st.one_of(st.lists(LABEL, min_size=1, max_size=4).map(".".join), st.just("::1")),
    st.integers(1, 65535),
    st.booleans(),
    st.text(),
    SECRETS,
)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("unix:///run/redis.sock", RedisPlace(path="/run/redis.sock")),
        ("unix:///run/a%20b.sock?db=3", RedisPlace(path="/run/a b.sock", database=3)),
        ("unix://:pw@/run/s", RedisPlace(path="/run/s", password="pw")),
        ("redis://host", RedisPlace(host="host", port=6379)),
        ("redis://host:7000/2", RedisPlace(host="host", port=7000, database=2)),
        ("redis://host/1?db=2", RedisPlace(host="host", database=2)),
        ("redis://[::1]:7000", RedisPlace(host="::1", port=7000)),
        ("redis://me:p%40%2Fw@host", RedisPlace(host="host", username="me", password="p@/w")),
        ("redis://:p@w@host", RedisPlace(host="host", password="p@w")),
        (
            "rediss://host:6380?ssl_ca_certs=/etc/ca.pem",
            RedisPlace(host="host", port=6380, is_tls=True, ca_file="/etc/ca.pem"),
        ),
    ],
)
def test_a_url_names_a_place(url: str, place: RedisPlace):
    assert parse_place(url) == place


@given(st.one_of(UNIX_PLACES, TCP_PLACES))
def test_a_place_comes_back_from_its_url(place: RedisPlace):
    assert parse_place(place.secret_url()) == place


@given(st.one_of(UNIX_PLACES, TCP_PLACES))
def test_the_text_of_a_place_is_a_url_without_a_secret(place: RedisPlace):
    shown = parse_place(str(place))
    assert (shown.path, shown.host, shown.database) == (place.path, place.host, place.database)
    assert (shown.username, shown.password) == ("", "")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("unix://me:secret@/run/s?db=1", "unix:///run/s?db=1"),
        ("redis://me:secret@host", "redis://host:6379"),
        ("rediss://:secret@[::1]:1/2?ssl_ca_certs=/x", "rediss://[::1]:1?db=2"),
    ],
)
def test_neither_text_nor_repr_shows_who_logs_in(url: str, text: str):
    place = parse_place(url)
    assert str(place) == text
    assert "secret" not in repr(place)
    assert "me" not in repr(place).replace("RedisPlace(", "")


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("secret", id="no-url"),
        pytest.param("http://:secret@host", id="foreign-scheme"),
        pytest.param("redis://:pa/secret@host:1", id="slash-in-password"),
        pytest.param("redis://:se?secret@host:6379", id="question-mark-in-password"),
        pytest.param("redis://:#secret@host", id="hash-in-password"),
        pytest.param("redis://me:secret@host:port", id="no-port"),
        pytest.param("redis://me:secret@host:99999", id="port-too-high"),
        pytest.param("redis://me:secret@", id="no-host"),
        pytest.param("redis://me:secret@[::1", id="half-a-bracket"),
        pytest.param(f"redis://me:secret@{'x' * 64}", id="impossible-host"),
        pytest.param("redis://me:secret@host/one", id="database-no-number"),
        pytest.param("redis://me:secret@host/²", id="database-no-digit"),
        pytest.param("redis://host?password=secret", id="unknown-option"),
        pytest.param("redis://host?secret", id="option-without-value"),
        pytest.param("unix://me:secret@", id="no-path"),
        pytest.param("unix://me:secret@/", id="root"),
        pytest.param("unix://me:secret@host/run/s", id="unix-with-host"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_its_secret(url: str):
    with pytest.raises(SettingsError, match="can't be understood, must be unix:///") as refused:
        parse_place(url)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_refused_url_shows_what_holds_no_secret():
    with pytest.raises(SettingsError, match=r"Redis URL redis://host:x/ can't"):
        parse_place("redis://host:x/")
