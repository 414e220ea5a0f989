"""
Says which session each request of a trace belongs to. Pure.

Where a trace names threads, the agent and its sub-agents are one session. Where it does not, a
request continues the session that first had the longest part of its prompt, and what many share
from the beginning, the first run, makes no session.
"""

from collections.abc import Sequence

from bench.replay.prefix_runs import PrefixRuns
from bench.replay.traces import Trace
from hearthkv.core.session_id import SessionId


def sessions_of(trace: Trace, runs: PrefixRuns) -> list[SessionId]:
    """Return the session of each request."""
    if any(request.thread for request in trace.requests):
        return [SessionId(request.thread.partition("/")[0]) for request in trace.requests]
    return _continued(runs.prompts)


def _continued(prompts: Sequence[Sequence[int]]) -> list[SessionId]:
    owners: dict[int, SessionId] = {}
    sessions: list[SessionId] = []
    for index, prompt in enumerate(prompts):
        known = next((owners[run] for run in reversed(prompt[1:]) if run in owners), None)
        session = known or SessionId(f"conversation-{index}")
        for run in prompt[1:]:
            owners.setdefault(run, session)
        sessions.append(session)
    return sessions
