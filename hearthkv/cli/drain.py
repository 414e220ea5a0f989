"""`hearthkv drain`: has a node hand its sessions over, and shows how many are left."""

import asyncio
from collections.abc import AsyncIterator

from rich.console import Console

from hearthkv.cli.arguments import DrainOptions
from hearthkv.cli.interrupt import run_until_signalled
from hearthkv.client.kv import HearthKV, connect

ASK_EVERY_S = 0.5


def run(options: DrainOptions) -> int:
    """
    Tell the node, wait where that is wished, and return the exit code.

    Raises:
        BadInputError: If the router's address or the node's name is malformed.
        PeerError: If the router does not answer, or does not know the node.
        KeyboardInterrupt: If a signal ended the waiting; the node goes on all the same.
    """
    run_until_signalled(_drain(options, Console(highlight=False, soft_wrap=True)))
    return 0


async def _drain(options: DrainOptions, console: Console) -> None:
    node = options.node
    async with connect(options.router) as kv:
        left = await kv.drain_node(node, cancel=options.cancel)
        if options.cancel:
            console.print(f"{node} stays.")
            return
        console.print(f"{node} gets no new sessions, and hands over those that it has.")
        console.print(_told(node, left))
        if options.wait:
            await _wait(kv, node, left, console)


async def _wait(kv: HearthKV, node: str, left: int, console: Console) -> None:
    """Tell how many sessions are left, as often as that changes, until none is."""
    with console.status(_told(node, left)) as status:
        async for now_left in _sessions_left(kv, node):
            if now_left == left:
                continue
            left = now_left
            status.update(_told(node, left))
            if not console.is_terminal:
                console.print(_told(node, left))
    console.print(f"{node} can be stopped.")


async def _sessions_left(kv: HearthKV, node: str) -> AsyncIterator[int]:
    """Give the sessions of a node again and again; the last number is 0."""
    while True:
        statuses = await kv.list_nodes()
        left = sum(status.sessions for status in statuses if status.endpoint.node_id == node)
        yield left
        if not left:
            return
        await asyncio.sleep(ASK_EVERY_S)


def _told(node: str, left: int) -> str:
    return f"{node}: {left} {'session' if left == 1 else 'sessions'} left"
