"""Shows how a demo goes on: bars in a terminal, else a line for each turn."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hearthkv.demo.play import Watcher
from hearthkv.demo.turn_record import TurnRecord


class ProgressLines:
    """One line for each turn: what is piped somewhere is read while it grows, too."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self.begin(title, 0)

    def begin(self, title: str, turns: int) -> None:
        """Say that a new part begins."""
        self._console.print(f"{title} ({turns} turns)" if turns else title, highlight=False)

    def advance(self, turn: TurnRecord) -> None:
        """Say that a turn is over."""
        self._console.print(f"  turn: {_told(turn)}", highlight=False)


class ProgressBars:
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
        self._progress.update(self._task, advance=1, last=_told(turn))

    def _end(self) -> None:
        task = self._progress.tasks[self._task]
        self._progress.update(self._task, completed=task.total)


@contextmanager
def demo_progress(console: Console, title: str) -> Iterator[Watcher]:
    """Show the progress while the context is open; `title` is what comes before the first turn."""
    if not console.is_terminal:
        yield ProgressLines(console, title)
        return
    columns = (
        TextColumn("{task.description:<29}"),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}", style="dim"),
    )
    with Progress(*columns, console=console) as progress:
        yield ProgressBars(progress, title)


def _told(turn: TurnRecord) -> str:
    return f"{turn.prompt_tokens} tok, {turn.ttft_s:.2f} s, {turn.hit_ratio:.0%} cached"
