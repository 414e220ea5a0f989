"""
Machines with clocks of their own, and the processes that live and die on them.

A process is all that its tasks do: they carry it in their context, and end with it. What a dead
process still does, while its tasks are being cancelled, reaches nobody.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

from hearthkv.core.clock import ManualClock
from tests.scenario.sim.loop import SimTask
from tests.scenario.sim.trace import Trace

_PROCESS: ContextVar["Process"] = ContextVar("process")

_TASKS_KEPT = 256
"""Tasks of a process beyond which those that are done are forgotten."""


class MachineClock:
    """The time of the simulation, and what this machine is ahead of it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.ahead_s = 0.0

    def now(self) -> float:
        return self._clock.now() + self.ahead_s


class Machine:
    """A host: it has a name and an address that never change, and runs one process at most."""

    def __init__(self, name: str, host: str, clock: ManualClock) -> None:
        self.name = name
        self.host = host
        self.clock = MachineClock(clock)
        self.process: Process | None = None
        self.lives = 0
        """Processes that have run here; the number of a process is its epoch."""

    @property
    def is_up(self) -> bool:
        return self.process is not None


class Process:
    """One life of a program on a machine."""

    def __init__(self, machine: Machine, trace: Trace) -> None:
        assert machine.process is None
        machine.process = self
        machine.lives += 1
        self.machine = machine
        self.number = machine.lives
        self.is_alive = True
        self.on_kill: list[Callable[[], None]] = []
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)
        self._trace = trace
        self._tasks: list[SimTask] = []

    def __str__(self) -> str:
        return f"{self.machine.name}#{self.number}"

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something in this process. It must not fail while the process lives."""
        task = asyncio.get_running_loop().create_task(coroutine, context=self.context)
        task.add_done_callback(self._look)
        return task

    def kill(self) -> None:
        """End the process, as abruptly as `kill -9` does."""
        self.is_alive = False
        self.machine.process = None
        for act in self.on_kill:
            act()
        self.cancel_tasks()

    def cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()

    def own(self, task: SimTask) -> None:
        if len(self._tasks) >= _TASKS_KEPT:
            self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)

    def _look(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or not self.is_alive:
            return
        error = task.exception()
        if error is not None and self._trace.failure is None:
            failure = self._trace.fail("I5", f"a task of {self} died of {error!r}")
            failure.__cause__ = error


def current_process() -> Process:
    """The process whose task is running."""
    return _PROCESS.get()


def note_task(task: SimTask) -> None:
    """Let a new task belong to the process that made it."""
    process = _PROCESS.get(None)
    if process is not None:
        process.own(task)
