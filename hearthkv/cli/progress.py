"""Shows in the terminal how a demo goes on."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hearthkv.demo.turn_record import TurnRecord


class DemoProgress:
    """One bar for each part of the demo; the last one says how its last turn went."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=1, last="")

    def begin(self, title: str, turns: int) -> None:
        """Show a new part; the one before is over."""
        self._end()
        self._task = self._progress.add_task(title, total=turns, last="")

    def advance(self, turn: TurnRecord) -> None:
        """Show that a turn is over."""
        last = f"{turn.prompt_tokens} tok, {turn.ttft_s:.2f} s, {turn.hit_ratio:.0%} cached"
        self._progress.update(self._task, advance=1, last=last)

    def _end(self) -> None:
        task = self._progress.tasks[self._task]
        self._progress.update(self._task, completed=task.total)


@contextmanager
def demo_progress(console: Console, title: str) -> Iterator[DemoProgress]:
    """Show bars while the context is open; `title` is what comes before the first turn."""
    columns = (
        TextColumn("{task.description:<29}"),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}", style="dim"),
    )
    with Progress(*columns, console=console) as progress:
        yield DemoProgress(progress, title)
