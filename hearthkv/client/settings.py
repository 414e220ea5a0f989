"""What a client needs to know: deadlines, limits and patience. Pure."""

import math
from dataclasses import dataclass, fields

from hearthkv.core.errors import SettingsError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """
    How long a client waits, and how much it keeps.

    A cache is worth asking only while the answer comes sooner than the prefill that it saves,
    so every wait ends in a miss.

    Raises:
        SettingsError: If a value is impossible; the text names field, value and what is allowed.
    """

    route_s: float = 0.25
    """Seconds that all routers together get to choose a node."""

    hedge_s: float = 0.05
    """Seconds after which the next router is asked as well, if the one before has not answered.
    Paid once for a router that is gone; much shorter, and busy routers are asked for nothing."""

    match_s: float = 0.25
    """Seconds that a node gets to say what it holds, where no router said so."""

    read_s: float = 30.0
    """Seconds that a load may take in all; a call of `load_into` may set its own."""

    stall_s: float = 1.0
    """Seconds without a byte after which a load gives up on the node."""

    save_s: float = 10.0
    """Seconds that a node gets to take one batch of saved blocks."""

    finish_s: float = 5.0
    """Seconds that `finish` waits for saves; what is not saved by then is given up."""

    call_s: float = 5.0
    """Seconds for calls outside a turn: listings, pins, drops."""

    cooldown_s: float = 0.5
    """Seconds for which a peer that failed once is left alone; doubles with every failure."""

    cooldown_s_max: float = 15.0
    """Where the doubling ends. Also the longest wait until a peer that is back is noticed."""

    watch_s: float = 60.0
    """Seconds after which the watch on the list of nodes is renewed, so that a dead connection
    can't keep an old list alive."""

    watch_retry_s: float = 1.0
    """Seconds between two rounds of asking all routers for the list of nodes."""

    queue_bytes_max: int = 256 * MIB
    """Payload bytes that wait to be saved, over all turns. A block above it is refused."""

    batch_bytes_max: int = 16 * MIB
    """Payload bytes of one write call. A refused block ends its run at the next batch."""

    chains_max: int = 64
    """Sessions whose hashed prompts are remembered: 5 bytes a token each. A forgotten one costs
    a full hash at its next turn, about 1 us a block."""

    direct_path: bool = True
    """Whether blocks of a node on this host are read from its stores and written into them by the
    client itself. False makes all of them go through the node, which costs more of the CPU."""

    load_gate: bool = True
    """Whether blocks that the engine computes faster than they are read are left out. It needs
    `Turn.note_prefill`; without it all is loaded."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                continue
            if not 0 < value < math.inf:
                raise SettingsError(f"{field.name} is {value}, must be > 0 and finite")
        if self.cooldown_s_max < self.cooldown_s:
            raise SettingsError(
                f"cooldown_s_max is {self.cooldown_s_max:g}, "
                f"must be >= cooldown_s, which is {self.cooldown_s:g}"
            )
