"""
Where a Redis server is and how to be let in, from a URL and back. Pure.

::

    unix:///run/redis.sock?db=1          unix://user:password@/run/redis.sock
    redis://host:6379/1                  redis://user:password@host:6379
    rediss://host:6380?ssl_ca_certs=/etc/ca.pem      (TLS)

Special characters in user, password and path are %-encoded. The text of a place, and of every
error here, leaves out user and password.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from hearthkv.core.errors import SettingsError

_PORT: Final = 6379
_SCHEMES: Final = ("unix", "redis", "rediss")
_OPTIONS: Final = ("db", "ssl_ca_certs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisPlace:
    """A server and an account on it."""

    path: str = ""
    """Its unix socket; empty for TCP."""

    host: str = ""
    port: int = _PORT
    is_tls: bool = False
    ca_file: str = ""
    """Certificates that its own is checked against; empty for those that the machine trusts."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    database: int = 0

    def __str__(self) -> str:
        """Where it is; may be shown."""
        return self._text(login="", options=self._shown_options())

    def secret_url(self) -> str:
        """Return the URL that gives this place when it is parsed. It holds the password."""
        login = ""
        if self.username or self.password:
            login = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}@"
        options = self._shown_options()
        if self.ca_file:
            options["ssl_ca_certs"] = self.ca_file
        return self._text(login=login, options=options)

    def _shown_options(self) -> dict[str, str]:
        return {"db": str(self.database)} if self.database else {}

    def _text(self, *, login: str, options: dict[str, str]) -> str:
        query = f"?{urlencode(options)}" if options else ""
        if self.path:
            return f"unix://{login}{quote(self.path)}{query}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.is_tls else 'redis'}://{login}{host}:{self.port}{query}"


def parse_place(url: str) -> RedisPlace:
    """
    Return the place that a URL names.

    Raises:
        SettingsError: If it can't be understood. The text shows no part of the URL that may
            hold a password.
    """
    try:
        return _parsed(url)
    except ValueError:
        # The text of either may quote a part of the password.
        raise SettingsError(
            f"Redis URL {_safe_label(url)} can't be understood, must be unix:///path.sock or "
            f"redis[s]://[[user]:password@]host[:port][/db], special characters %-encoded, "
            f"with no options but {' and '.join(_OPTIONS)}"
        ) from None


def _parsed(url: str) -> RedisPlace:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or parts.fragment:
        raise ValueError
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    if not options.keys() <= set(_OPTIONS):
        raise ValueError
    is_unix = parts.scheme == "unix"
    path = unquote(parts.path)
    host = parts.hostname or ""
    host.encode("idna")  # what no resolver takes
    if is_unix == bool(host) or (is_unix and path in {"", "/"}):
        raise ValueError
    database = options.get("db", "") or ("" if is_unix else path.strip("/"))
    return RedisPlace(
        path=path if is_unix else "",
        host=host,
        port=parts.port or _PORT,
        is_tls=parts.scheme == "rediss",
        ca_file=options.get("ssl_ca_certs", ""),
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=_number(database or "0"),
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def _safe_label(url: str) -> str:
    """Scheme and place, without user and password."""
    scheme, _, rest = url.partition("://")
    if scheme not in _SCHEMES:
        return "of no known scheme"
    place, *options = rest.split("?", 1)
    # An @ behind a ? may be of a password before it or after it, and a place that can't be
    # understood may be a part of the password: then nothing is shown.
    is_plain = not options and "@" not in rest
    return f"{scheme}://{place if is_plain else '...'}"
