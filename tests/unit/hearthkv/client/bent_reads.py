"""Ways to bend the messages of an honest read, for the tests of turns."""

from collections.abc import Callable

from hearthkv.v1 import cache_node_pb2
from tests.fakes.node import Step

Bend = Callable[[list[cache_node_pb2.ReadResponse]], list[Step]]


def changed(at: int, change: Callable[[cache_node_pb2.ReadResponse], object]) -> Bend:
    def bend(steps: list[cache_node_pb2.ReadResponse]) -> list[Step]:
        change(steps[at])
        return list(steps)

    return bend


def flip(step: cache_node_pb2.ReadResponse) -> None:
    data = bytearray(step.chunk.data)
    data[0] ^= 1
    step.chunk.data = bytes(data)


def set_header(**fields: object) -> Callable[[cache_node_pb2.ReadResponse], None]:
    def change(step: cache_node_pb2.ReadResponse) -> None:
        for name, value in fields.items():
            setattr(step.chunk.header, name, value)

    return change


def replaced(at: int, *messages: Step) -> Bend:
    return lambda steps: [*steps[:at], *messages, *steps[at + 1 :]]


def ending(at: int, *messages: Step) -> Bend:
    return lambda steps: [*steps[:at], *messages]


def end_of(value: int) -> cache_node_pb2.ReadResponse:
    return cache_node_pb2.ReadResponse(end=value)  # type: ignore[arg-type]
