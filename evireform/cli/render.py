"""Records to what people read: tables and lists. The tree of one ranking is in `explain`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from evireform.evaluation import Evaluation
    from evireform.records import (
        BatchDone,
        Check,
        CorpusStatus,
        EnqueueSummary,
        IngestionSummary,
        InitReport,
        Ranking,
        Rejected,
        WorkerSummary,
    )
    from evireform.retrieval.replay import Replay

LISTED = 20
"""Most rows of a list of faults; all of them are in the JSON."""

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str, style: str = "") -> Text:
    """Foreign text for a terminal: on one line, and without what could steer it.

    >>> safe("two\\nlines \\x1b[31mred").plain
    'two lines ?[31mred'
    """
    return Text(_UNSAFE.sub("?", " ".join(text.split())), style)


def init_report(report: InitReport) -> Text:
    """What `init` found and did."""
    if report.migrated_from == report.migrated_to:
        done = f"up to date at migration {report.migrated_to}"
    elif report.migrated_from:
        done = f"migrated from {report.migrated_from} to {report.migrated_to}"
    else:
        done = f"created at migration {report.migrated_to}"
    server = f"PostgreSQL {report.server_version}, pgvector {report.extension_version}"
    return safe(f"schema {report.schema} is {done} ({server} in schema {report.extension_schema})")


def ingestion(summary: IngestionSummary, corpus: str) -> Group:
    """What an ingestion did, and every passage that did not go in."""
    table = Table(title=safe(f"corpus {corpus}"), title_justify="left")
    heads = (
        "added",
        "changed",
        "of them empty",
        "of them failed",
        "unchanged",
        "rejected",
        "new propositions",
    )
    for name in heads:
        table.add_column(name, justify="right")
    table.add_row(
        str(summary.added),
        str(summary.changed),
        alarm(summary.empty, "yellow"),
        alarm(len(summary.failed), "red"),
        str(summary.unchanged),
        alarm(len(summary.rejected), "red"),
        str(summary.propositions),
    )
    parts: list[RenderableType] = [table]
    if summary.failed:
        parts.append(rejections("failed: `evireform retry` tries them again", summary.failed))
    if summary.rejected:
        parts.append(rejections("rejected", summary.rejected))
    parts += [note(text) for text in summary.notes]
    if summary.unsupported:
        named = f"{counted(summary.unsupported, 'proposition')} with what the passage does not have"
        parts.append(note(f"{named}: kept"))
    if summary.dropped_propositions:
        named = f"{counted(summary.dropped_propositions, 'proposition')} with what the passage does not have"
        parts.append(note(f"{named}: left out"))
    if summary.dropped_entities:
        parts.append(note(f"{summary.dropped_entities} entity names were empty or too long, and left out"))
    if summary.truncated:
        parts.append(note(f"{summary.truncated} propositions were longer than the embedding model reads"))
    if summary.stopped:
        parts.append(safe(f"stopped: {summary.stopped}", "yellow"))
        parts.append(
            note(
                f"{counted(summary.not_done, 'passage')} had been read and did not go in, nor did any after: "
                "run it again to go on"
            )
        )
    if summary.model_calls:
        parts.append(_spending(summary))
    parts.append(safe(f"{summary.seconds:.1f} s", "dim"))
    return Group(*parts)


def _spending(summary: IngestionSummary | WorkerSummary) -> Text:
    from evireform.cli.accounts import money

    tokens_in, tokens_out = (
        "?" if tokens is None else f"{tokens:,}" for tokens in (summary.tokens_in, summary.tokens_out)
    )
    return safe(
        f"{counted(summary.model_calls, 'model call')}, {summary.cached} of them answered from the ledger: "
        f"{tokens_in} tokens in, {tokens_out} out, cost {money(summary.cost)}"
    )


def rejections(title: str, rows: Sequence[Rejected]) -> Table:
    """Where each refused passage stood, and why it was refused."""
    table = Table(title=safe(title), title_justify="left", caption=_more(len(rows)) or None)
    table.add_column("where", overflow="fold")
    table.add_column("passage", overflow="fold")
    table.add_column("reason", overflow="fold")
    for row in rows[:LISTED]:
        line = f" line {row.line_number}" if row.line_number is not None else ""
        table.add_row(safe(row.path + line), safe(row.passage_key), safe(row.reason))
    return table


def enqueued(summary: EnqueueSummary, corpus: str) -> Group:
    """What waits from now on, what need not, and what cannot go in."""
    table = Table(title=safe(f"queue of corpus {corpus}"), title_justify="left")
    counts = {
        "new": summary.queued,
        "replaced": summary.replaced,
        "waiting already": summary.waiting,
        "in the index already": summary.unchanged,
        "relabelled there": summary.relabelled,
    }
    for name in (*counts, "rejected"):
        table.add_column(name, justify="right")
    table.add_row(*map(str, counts.values()), alarm(len(summary.rejected), "red"))
    parts: list[RenderableType] = [table]
    if summary.rejected:
        parts.append(rejections("rejected", summary.rejected))
    return Group(*parts, safe(f"{summary.seconds:.1f} s", "dim"))


def batch(done: BatchDone) -> Text:
    """One line of a worker's log."""
    counts = f"{done.written} written"
    if done.failed:
        counts += f", {len(done.failed)} of them failed (first: {done.failed[0].reason})"
    if done.returned:
        counts += f", {len(done.returned)} to be tried again (first: {done.returned[0].reason})"
    if done.lost:
        counts += f", {done.lost} lost: deleted, replaced or taken over meanwhile"
    return safe(f"{done.corpus}: {counts}")


def worker(summary: WorkerSummary) -> Group:
    """What a worker did until it ended."""
    counts = f"{summary.written} written, {summary.failed} of them failed"
    counts += f", {counted(summary.returned, 'attempt')} failed otherwise, {summary.lost} lost"
    parts: list[RenderableType] = [safe(counts), *(note(text) for text in summary.notes)]
    parts += [safe(text, "yellow") for text in summary.refused]
    if summary.reason:
        parts.append(safe(f"stopped: {summary.reason}", "yellow"))
        parts.append(note("what was in hand is back in the queue: start a worker again to go on"))
    if summary.model_calls:
        parts.append(_spending(summary))
    return Group(*parts, safe(f"{summary.seconds:.1f} s", "dim"))


def corpora(statuses: Sequence[CorpusStatus]) -> RenderableType:
    """All corpora with their counts."""
    if not statuses:
        return Text("there is no corpus yet: `evireform ingest` makes one")
    table = Table("corpus", "titles", "extractor")
    for name in ("ready", "empty", "failed", "propositions", "entities", "queued"):
        table.add_column(name, justify="right")
    for status in statuses:
        table.add_row(
            safe(status.name),
            status.titles,
            safe(status.extractor),
            str(status.ready),
            alarm(status.empty, "yellow"),
            alarm(status.failed, "red"),
            str(status.propositions),
            str(status.entities),
            str(status.waiting + status.leased),
        )
    return table


def corpus(status: CorpusStatus) -> Group:
    """One corpus with its vector spaces and failures."""
    parts: list[RenderableType] = [corpora([status])]
    table = Table("vectors of", "model", "dimensions", "prompts", "state", "index")
    for space in status.spaces:
        table.add_row(
            f"{space.kind}s",
            safe(space.model),
            str(space.dimensions),
            safe(", ".join(sorted(space.prompts)) or "none"),
            "active" if space.active else "not active",
            "HNSW" if space.indexed else "none (exact scan)",
        )
    if status.spaces:
        parts.append(table)
    if status.failures:
        parts.append(rejections("failed", status.failures))
    return Group(*parts)


def ranking(result: Ranking) -> Group:
    """A ranking with the proposition that earned each passage most."""
    parts: list[RenderableType] = [safe(result.question, "bold")]
    if result.passages:
        table = Table()
        table.add_column("#", justify="right")
        table.add_column("score", justify="right", no_wrap=True)
        table.add_column("passage", overflow="fold", ratio=1)
        table.add_column("earned by", overflow="fold", ratio=3)
        for passage in result.passages:
            best = passage.propositions[0].text if passage.propositions else passage.text
            table.add_row(
                str(passage.rank),
                f"{passage.score:.4f}",
                name_of(passage.passage_key, passage.title),
                safe(best),
            )
        parts.append(table)
    else:
        parts.append(safe(f"no passage: {result.reason}", "yellow"))
    return Group(*parts, *remarks(result))


def remarks(result: Ranking) -> list[Text]:
    """What fell short, what is worth knowing, and where it was logged."""
    lines = [degraded(text) for text in result.degraded] + [note(text) for text in result.notes]
    if result.log_id is not None:
        lines.append(safe(f"logged as {result.log_id}", "dim"))
    return lines


def replay(result: Replay) -> Group:
    """A logged ranking beside the one of today."""
    table = Table("#", "passage", "score today", "score logged")
    logged = dict(result.logged)
    for passage in result.passages:
        before = logged.get(passage.passage_key)
        table.add_row(
            str(passage.rank),
            name_of(passage.passage_key, passage.title),
            f"{passage.score:.6f}",
            "not ranked" if before is None else f"{before:.6f}",
        )
    shown = {passage.passage_key for passage in result.passages}
    for key, score in result.logged:
        if key not in shown:
            table.add_row("", safe(key), "not ranked", f"{score:.6f}")
    if result.same:
        verdict = Text("the same ranking as logged", "green")
    else:
        verb = "is" if result.missing == 1 else "are"
        lost = f"; {result.missing} of its seeds {verb} gone or changed" if result.missing else ""
        verdict = Text(f"the corpus has changed since: another ranking than logged{lost}", "yellow")
    return Group(safe(result.question, "bold"), table, verdict)


def evaluation(result: Evaluation) -> Group:
    """Recall, Chain and Hit in percent, one block a measure."""
    measured = [name.partition("@") for means in result.methods.values() for name in means]
    cutoffs = sorted({int(depth) for _, at, depth in measured if at})
    table = Table(title=safe(f"{result.dataset}: {result.questions} questions, titles {result.titles}"))
    table.add_column("percent")
    table.add_column("method")
    for cutoff in cutoffs:
        table.add_column(f"@{cutoff}", justify="right")
    for measure in ("recall", "chain", "hit"):
        ranking = {name: means for name, means in result.methods.items() if any("@" in key for key in means)}
        for row, (method, means) in enumerate(ranking.items()):
            values = [f"{100 * means[f'{measure}@{cutoff}']:.2f}" for cutoff in cutoffs]
            table.add_row("" if row else measure.capitalize(), safe(method), *values)
        table.add_section()
    parts: list[RenderableType] = [table]
    if found := result.answers:
        parts.append(
            safe(
                f"Answers from {found.method}: F1 {100 * found.f1:.2f}, exact match {100 * found.em:.2f}, "
                f"{found.unknown} of {counted(found.questions, 'question')} unknown"
            )
        )
        if found.degraded:
            parts.append(degraded(f"answers: {found.degraded} of {found.questions} questions"))
    if result.unjudged:
        parts.append(note(f"{result.unjudged} questions have no gold passages and do not count"))
    parts += [degraded(text) for text in result.shortfalls]
    return Group(*parts, *(note(text) for text in result.notes))


def checks(found: Iterable[Check]) -> Table:
    """One line a check, with what to do about each problem."""
    table = Table("", "checked", "found", "remedy", show_lines=False)
    for check in found:
        table.add_row(
            Text("ok", "green") if check.ok else Text("problem", "bold red"),
            safe(check.name),
            safe(check.detail),
            safe(check.remedy),
        )
    return table


def deletion(deleted: Sequence[str], missing: Sequence[str]) -> Group:
    """What was deleted, and which keys no passage had."""
    parts: list[RenderableType] = [Text(f"deleted {counted(len(deleted), 'passage')}")]
    parts += [safe(f"no passage has the key {key}", "yellow") for key in missing[:LISTED]]
    if more := _more(len(missing)):
        parts.append(Text(more))
    return Group(*parts)


def examples(questions: Mapping[int, str]) -> Table:
    """Numbered questions to try."""
    table = Table.grid(padding=(0, 2))
    for number, text in questions.items():
        table.add_row(Text(str(number), "cyan"), safe(text))
    return table


def shortened(text: str, longest: int = 60) -> str:
    """The beginning of a text.

    >>> shortened("Oslo is the capital.", 8)
    'Oslo is…'
    """
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def name_of(key: str, title: str) -> Text:
    """A passage by its key, and its title where it says more."""
    return Text(" ").join([safe(key, "cyan"), *([safe(title)] if title and title != key else [])])


def degraded(text: str) -> Text:
    """A fall-back: never silent."""
    return Text.assemble(("degraded: ", "bold yellow"), safe(text))


def note(text: str) -> Text:
    """Something worth knowing."""
    return Text.assemble(("note: ", "dim"), safe(text))


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, whose plural is given where it is not regular.

    >>> counted(1, "passage"), counted(2, "passage"), counted(2, "corpus", "corpora")
    ('1 passage', '2 passages', '2 corpora')
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def _more(total: int) -> str:
    return f"and {total - LISTED} more (all with --json)" if total > LISTED else ""


def alarm(count: int, style: str) -> Text:
    """A number that is better zero."""
    return Text(str(count), style if count else "")
