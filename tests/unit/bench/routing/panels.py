"""Figures to show, for the tests of the routing bench."""

from bench.routing.figures import Calls, CallTimes, Decision, Row


def row(nodes: int = 64, tokens: int = 1_000, route_us: float = 300.0, new_us: float = 45.0) -> Row:
    return Row(
        nodes=nodes,
        prompt_tokens=tokens,
        calls=Calls(CallTimes(route_us, 2 * route_us, 900.0), CallTimes(250.0, 400.0, 1500.0)),
        decision=Decision(known_us=30.0, known_p99_us=60.0, new_us=new_us, new_p99_us=90.0),
    )
