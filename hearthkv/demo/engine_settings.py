"""The `[engine]` section: what the reference engine needs to know at its start. Pure."""

from dataclasses import dataclass

from hearthkv.client.peers import check_address
from hearthkv.core.address import split_address
from hearthkv.core.errors import BadInputError, SettingsError, StartupError
from hearthkv.core.log_level import check_log_level


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """
    Settings of the reference engine, apart from `[kv_cache]`.

    Raises:
        SettingsError: If a value is impossible.
    """

    listen: str = "127.0.0.1:8000"
    """Where the HTTP server listens, host:port; port 0 takes any free one."""

    node: str = ""
    """The cache node beside the engine, host:port. Empty: the router chooses one each turn."""

    routers: tuple[str, ...] = ()
    """Routers to ask where no node is given, host:port. Neither node nor router: no cache."""

    threads: int = 2
    """Threads that compute. More than cores only cost time."""

    requests_max: int = 8
    """Requests that run or wait; one more is refused with status 503."""

    log_level: str = "info"
    """Least level of the log: debug, info, warning or error."""

    def __post_init__(self) -> None:
        self._check_addresses()
        for name in ("threads", "requests_max"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}, must be >= 1")
        check_log_level(self.log_level)

    def _check_addresses(self) -> None:
        try:
            split_address(self.listen)
        except StartupError:
            raise SettingsError(
                f"listen is {self.listen!r}, must be host:port with a port in 0..65535"
            ) from None
        peers = [("node", self.node)] if self.node else []
        peers += [("routers", router) for router in self.routers]
        for name, address in peers:
            try:
                check_address(address)
            except BadInputError:
                raise SettingsError(
                    f"{name} has {address!r}, must be host:port or unix:path"
                ) from None
