"""Small traces, and a replay of them block by block that is too simple to be wrong."""

import random

from bench.replay.traces import Request, Trace

BLOCK_TOKENS = 10


def trace_of(*prompts: list[int], block_tokens: int = BLOCK_TOKENS) -> Trace:
    """A request a second, with prompts of whole blocks."""
    requests = tuple(
        Request(at_s, len(prompt) * block_tokens, tuple((block, 1) for block in prompt))
        for at_s, prompt in enumerate(prompts)
    )
    return Trace("small", block_tokens, requests)


def blocks_of(request: Request) -> list[int]:
    return [block for first, count in request.runs for block in range(first, first + count)]


def random_trace(seed: int, request_count: int = 60) -> Trace:
    """A few sessions that share an opening, go on from prompt to prompt, and sometimes back."""
    chance = random.Random(seed)
    number = 3
    sessions = [[0, 1, 2] for _ in range(4)]
    prompts = []
    for _ in range(request_count):
        session = sessions[chance.randrange(4)]
        if chance.random() < 0.1:
            del session[chance.randrange(1, len(session) + 1) :]
        for _ in range(chance.randrange(1, 6)):
            session.append(number)
            number += 1
        prompts.append(list(session))
    return trace_of(*prompts)


def lru_by_blocks(trace: Trace, capacity_blocks: int) -> list[int]:
    """Leading blocks held of each prompt, where the block used longest ago leaves first."""
    held: list[int] = []
    hits = []
    for request in trace.requests:
        prompt = blocks_of(request)
        hits.append(leading(prompt, held))
        held = [block for block in held if block not in prompt] + prompt[::-1]
        held = held[max(len(held) - capacity_blocks, 0) :]
    return hits


def optimum_by_blocks(trace: Trace, capacity_blocks: int) -> list[int]:
    """Leading blocks held of each prompt, where the block needed last leaves first."""
    prompts = [blocks_of(request) for request in trace.requests]
    held: list[int] = []
    hits = []
    for index, prompt in enumerate(prompts):
        hits.append(leading(prompt, held))
        needed = {}
        for block in {*held, *prompt}:
            uses = [at for at in range(index + 1, len(prompts)) if block in prompts[at]]
            if uses:
                needed[block] = uses[0], prompts[uses[0]].index(block)
        held = sorted(needed, key=needed.__getitem__)[:capacity_blocks]
    return hits


def leading(prompt: list[int], held: list[int]) -> int:
    missing = (index for index, block in enumerate(prompt) if block not in held)
    return next(missing, len(prompt))
