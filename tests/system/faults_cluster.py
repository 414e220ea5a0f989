"""The cluster of deploy/cluster.yaml, a load within it, and what that tells. Not pure."""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from tests.house.tree import ROOT
from tests.system.compose_project import ComposeProject, docker
from tests.system.growing_session import NODES, ROUTERS
from tests.system.load_records import RouteRecord, TurnRecord, ViewRecord, record_of
from tests.system.waiting import eventually

Timed = TypeVar("Timed", TurnRecord, RouteRecord, ViewRecord)

PROJECT = "hearthkv-faults"

FILES = (ROOT / "deploy" / "cluster.yaml", ROOT / "tests" / "system" / "cluster_faults.yaml")


class FaultsCluster(ComposeProject):
    """Two routers, four nodes, and the load."""

    def __init__(self) -> None:
        super().__init__(ROOT / "deploy", FILES, PROJECT)

    def start(self) -> None:
        """Build the servers' images and start all but the load."""
        self.stop()
        self.run("build", "--quiet", "router-1", "node-1")
        try:
            self.run("up", "--wait", *ROUTERS, *NODES)
        except BaseException as error:
            error.add_note(self.logs(*ROUTERS, *NODES))
            self.stop()  # for nobody else will
            raise

    def logs(self, *services: str) -> str:
        return self.run("logs", "--no-color", "--tail", "30", *services)

    def drop_session_within(self, node: str, session_id: str) -> int:
        """Have a node drop a session's blocks, asked from its own container."""
        return int(docker("exec", self.container(node), "python", "-c", DROP_SESSION, session_id))

    @contextmanager
    def leaving(self, node: str) -> Iterator[None]:
        """With a node that was told to hand its sessions over; afterwards it begins anew."""
        docker("exec", self.container("load"), "python", "-c", DRAIN_NODE, node)
        try:
            yield
        finally:
            docker("restart", "--time", "10", self.container(node))

    def stop_by_signal(self, service: str) -> int:
        """Have a service end by SIGTERM; return its exit code."""
        docker("stop", "--time", "30", self.container(service))
        return int(docker("inspect", "--format", "{{.State.ExitCode}}", self.container(service)))


class Load:
    """The load, while its block lasts, and all that it has told so far."""

    def __init__(self, cluster: FaultsCluster) -> None:
        self.turns: list[TurnRecord] = []
        self.routes: list[RouteRecord] = []
        self.views: list[ViewRecord] = []
        self._said: list[str] = []
        self._cluster = cluster

    def __enter__(self) -> Self:
        self._cluster.run("up", "--detach", "--no-deps", "load")
        self._logs = subprocess.Popen(
            ["docker", "logs", "--follow", self._cluster.container("load")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._logs.terminate()
        self._reader.join()
        self._logs.communicate()

    def check_running(self) -> None:
        """See that the load has not ended, as it does when a call of the SDK raises."""
        assert self._reader.is_alive(), "".join(self._said[-100:])

    def turns_since(self, since_s: float, *, at_least: int = 0) -> list[TurnRecord]:
        """Return the turns that began after a moment, once there are so many."""
        return self._once(self.turns, since_s, at_least, "turns")

    def routes_since(self, since_s: float, *, at_least: int = 0) -> list[RouteRecord]:
        """Return the bare calls of Route since a moment, once there are so many."""
        return self._once(self.routes, since_s, at_least, "calls of Route")

    def views_since(self, since_s: float, *, at_least: int = 0) -> list[ViewRecord]:
        """Return the comparisons since a moment, once there are so many."""
        return self._once(self.views, since_s, at_least, "views")

    def wait_agreed(
        self, since_s: float, nodes: Iterable[str] = NODES, routers: Iterable[str] = ROUTERS
    ) -> float:
        """
        Wait until routers have these nodes live and know exactly what they hold.

        Returns:
            Seconds from the given moment until the last of them agreed for the first time.
        """
        return max(self._agreed_s(since_s, node, router) for node in nodes for router in routers)

    def busiest_node(self) -> str:
        """Return the node where most lines of sessions had their last turn."""
        nodes = Counter(turn.node for turn in self._last_turns().values() if turn.node)
        return nodes.most_common(1)[0][0]

    def calmest_node(self) -> str:
        """
        Return the node where the fewest turns broke off in the last minute.

        For so long a node takes a turn to be under way if nobody tells it that it ended.
        """
        recent = self.turns_since(time.time() - 60)
        broken = Counter(
            turn.node for turn in recent if turn.refusal or turn.miss not in (None, "not_held")
        )
        nodes = {turn.node for turn in self._last_turns().values() if turn.node}
        return min(sorted(nodes), key=lambda node: broken[node])

    def last_turns_on(self, node: str) -> dict[str, TurnRecord]:
        """Return the last turn of each line whose last turn was on a node."""
        return {line: turn for line, turn in self._last_turns().items() if turn.node == node}

    def _last_turns(self) -> dict[str, TurnRecord]:
        return {turn.line: turn for turn in list(self.turns)}

    def _agreed_s(self, since_s: float, node: str, router: str) -> float:
        def first_agreed() -> ViewRecord | None:
            self.check_running()
            views = self.views_since(since_s)
            return next((view for view in views if view.agrees_on(node, [router])), None)

        view = eventually(first_agreed, wanted=f"{router} knows what {node} holds")
        return view.began_s - since_s

    def _once(self, records: list[Timed], since_s: float, at_least: int, what: str) -> list[Timed]:
        def found() -> list[Timed]:
            return [record for record in records if record.began_s > since_s]

        def are_enough() -> bool:
            self.check_running()
            return len(found()) >= at_least

        eventually(are_enough, wanted=f"{at_least} {what}")
        return found()

    def _read(self) -> None:
        assert self._logs.stdout is not None
        for line in self._logs.stdout:
            record = record_of(line)
            if isinstance(record, TurnRecord):
                self.turns.append(record)
            elif isinstance(record, RouteRecord):
                self.routes.append(record)
            elif isinstance(record, ViewRecord):
                self.views.append(record)
            else:
                self._said.append(line)


DRAIN_NODE = """
import sys
from hearthkv.client.blocking import connect_blocking
with connect_blocking("router-1:7400") as kv:
    kv.drain_node(sys.argv[1])
"""

DROP_SESSION = """
import sys
from hearthkv.client.blocking import connect_blocking
from hearthkv.core.block_io import DropSession
with connect_blocking() as kv:
    print(kv.drop("127.0.0.1:7500", DropSession(sys.argv[1])))
"""
