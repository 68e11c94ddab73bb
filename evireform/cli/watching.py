"""`status --watch`: how far the queues are, again and again until Ctrl-C."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evireform.cli.render import alarm, rejections, safe
from evireform.cli.session import writing

if TYPE_CHECKING:
    from evireform.cli.session import Session
    from evireform.database import Database
    from evireform.records import QueueProgress, WorkerRow

FAILURES = 5
"""Failed passages that are drawn of each corpus; up to a hundred are in the JSON."""


def watch(session: Session, db: Database, corpus: str | None, interval_s: float) -> None:
    """Show progress, redrawn on a terminal; with ``--json`` a line of JSON each time. Ctrl-C ends it well."""
    try:
        if session.as_json:
            while True:
                document = {
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "corpora": [asdict(one) for one in db.progress(corpus)],
                    "workers": [asdict(one) for one in db.workers()],
                }
                with writing():
                    sys.stdout.write(json.dumps(document, default=str) + "\n")
                    sys.stdout.flush()
                time.sleep(interval_s)
        from rich.live import Live

        with Live(console=session.out, auto_refresh=False) as live:
            while True:
                drawn = queues(db.progress(corpus), db.workers())
                if session.out.is_terminal:
                    live.update(drawn, refresh=True)
                else:
                    with writing():
                        session.out.print(drawn)
                time.sleep(interval_s)
    except KeyboardInterrupt:
        return


def queues(progress: Sequence[QueueProgress], at_work: Sequence[WorkerRow]) -> Group:
    """What waits, what is done and how fast, who works, and some of what failed."""
    from evireform.cli.accounts import money

    table = Table("corpus")
    for name in ("waiting", "on lease", "ready", "empty", "failed", "a second", "left", "cost"):
        table.add_column(name, justify="right")
    for one in progress:
        table.add_row(
            safe(one.name),
            str(one.waiting),
            str(one.leased),
            str(one.ready),
            alarm(one.empty, "yellow"),
            alarm(one.failed, "red"),
            f"{one.rate:.1f}",
            time_left(one),
            money(one.cost),
        )
    parts: list[RenderableType] = [table, workers(at_work)]
    for one in progress:
        if one.failures:
            parts.append(rejections(f"failed in {one.name}", one.failures[:FAILURES]))
    return Group(*parts)


def workers(at_work: Sequence[WorkerRow]) -> RenderableType:
    """Who works, and who was lost."""
    if not at_work:
        return Text("no worker: `evireform worker` starts one", "dim")
    table = Table("worker", "process")
    for name in ("seen", "written", "of them failed"):
        table.add_column(name, justify="right")
    for one in at_work:
        seen = f"{one.unseen_s:.0f} s ago"
        table.add_row(
            safe(one.host),
            str(one.process),
            Text(seen) if one.alive else Text(f"lost {seen}", "red"),
            str(one.written),
            alarm(one.failed, "red"),
        )
    return table


def time_left(progress: QueueProgress) -> str:
    """The time that the queue takes at the rate of the last minute, for people."""
    if not progress.waiting + progress.leased:
        return "none"
    if progress.left_s is None:
        return "?"
    minutes, seconds = divmod(round(progress.left_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
