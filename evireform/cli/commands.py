"""The commands that work on corpora: arguments in, records out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evireform.cli.ingesting import run_enqueuing, run_ingestion
from evireform.cli.session import Session, takes_session
from evireform.errors import InputError, UsageError
from evireform.filters import parse
from evireform.settings import VARIANTS
from evireform.wellformed import well_formed

if TYPE_CHECKING:
    from evireform.database import Database


def in_utf8(given: str | list[str] | None) -> str | list[str] | None:
    """Refuse a name or key that no database can hold, before anything is opened."""
    for text in [given] if isinstance(given, str) else given or ():
        if well_formed(text) != text:
            raise typer.BadParameter("it is not valid UTF-8")
    return given


Corpus = Annotated[str, typer.Option("--corpus", metavar="NAME", help="The corpus.", callback=in_utf8)]


class TitlesOption(StrEnum):
    """Whether titles join the text."""

    on = "on"
    off = "off"


Titles = Annotated[
    TitlesOption | None,
    typer.Option(
        help="Whether titles join the text for extraction, observation and embedding; "
        "fixed when the corpus is made.",
        show_default="on for a new corpus",
    ),
]
Extractions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Ready-made propositions and entities (JSONL) in place of the language backend."
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        help="The most to spend on model calls: tokens (200k, 100 tokens), or money, a bare number (1.50).",
        show_default="no end",
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ask the model again what the ledger has an answer to.")
]


Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Look only at passages with such metadata: year>=2020, lang=en,de, public=true; may be "
        "repeated, and then all must hold.",
        show_default=False,
        callback=in_utf8,
    ),
]


def take_spending_flags(session: Session, budget: str | None, no_cache: bool) -> None:
    """The flags of commands that may ask a model much."""
    if budget is not None:
        session.flags["language.budget"] = budget
    if no_cache:
        session.flags["language.cache"] = "false"


@takes_session()
def init(
    session: Session,
    to: Annotated[
        str,
        typer.Option(
            metavar="MIGRATION",
            help="Go to this migration instead of the newest, before an older evireform is installed. "
            "What only later tables hold is lost.",
            show_default=False,
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before going back.")] = False,
) -> None:
    """Create the tables, or bring them up to date. Running it again changes nothing."""
    from evireform.cli import render
    from evireform.store.revisions import known_revisions

    if to in known_revisions()[:-1] and not yes:
        confirm(session, f"Take the tables to migration {to}, and lose what only later ones hold?")
    with session.connect() as db:
        report = db.init(to=to) if to else db.found or db.init()
    session.show(asdict(report), render.init_report(report))
    if db.found is not None and db.found.migrated_to != report.migrated_to:
        session.note(
            "every command of this evireform takes the embedded server to the newest migration again: "
            "install the older one before the next"
        )


@takes_session()
def ingest(
    session: Session,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCES",
            help="JSONL, CSV or text files, folders of text files, or - for JSONL on standard input.",
        ),
    ],
    corpus: Annotated[
        str,
        typer.Option(
            "--corpus", metavar="NAME", help="The corpus; made when it is not there.", callback=in_utf8
        ),
    ],
    titles: Titles = None,
    extractions: Extractions = None,
    split: Annotated[
        int | None,
        typer.Option(
            metavar="CHARACTERS",
            min=1,
            max=10_000_000,
            help="Split longer texts at paragraph and sentence ends.",
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say what it would ask of a model, and ask none.")
    ] = False,
    queue: Annotated[
        bool,
        typer.Option("--queue", help="Only let them wait for `evireform worker`, and ask no model."),
    ] = False,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Bring passages into a corpus: new ones are added, changed ones replaced, unchanged ones skipped.

    What cannot go in is listed with file, line and reason, the rest goes in, and the exit code is 1.
    """
    if queue and (estimate or budget is not None or no_cache):
        raise UsageError("--queue asks no model: leave out --estimate, --budget and --no-cache")
    from evireform.cli import accounts
    from evireform.formats.chunking import split_passages
    from evireform.formats.extractions import read_extractions
    from evireform.formats.passages import read_passages

    take_spending_flags(session, budget, no_cache)
    passages = read_passages(sources)
    if split:
        passages = split_passages(passages, max_characters=split)
    ready = read_extractions(extractions) if extractions else None
    with session.connect() as db:
        if estimate:
            expected = db.estimate(
                corpus, passages, titles=titles.value if titles else None, extractions=ready
            )
            document: dict[str, Any] = {"corpus": corpus, "estimate": asdict(expected)}
            session.show(document, accounts.estimate(expected, corpus))
            return
        new = not holds(db, corpus)
        target = db.corpus(corpus, create=True, titles=titles.value if titles else None)
        if new and not queue:
            session.note_language()
        total = _lines(sources) if session.err.is_terminal and not split else None
        rejected = () if ready is None else ready.rejected
        if queue:
            enqueue = partial(target.enqueue, passages, extractions=ready)
            run_enqueuing(session, corpus, enqueue, total=total, rejected=rejected)
            return
        run = partial(target.ingest, passages, extractions=ready)
        run_ingestion(session, corpus, run, total=total, rejected=rejected)


def holds(db: Database, corpus: str) -> bool:
    """Whether there is a corpus of this name."""
    return any(row.name == corpus for row in db.corpora())


def _lines(sources: Sequence[str]) -> int | None:
    """How many passages to expect, where that is cheap to tell: the lines of JSONL files."""
    total = 0
    for path in map(Path, sources):
        if path.suffix.lower() != ".jsonl" or not path.is_file():
            return None
        with path.open("rb") as stream:
            total += sum(1 for line in stream if line.strip())
    return total


@takes_session()
def search(
    session: Session,
    corpus: Corpus,
    questions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION",
            help="Questions; - reads one a line from standard input.",
            show_default=False,
            callback=in_utf8,
        ),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Passages per ranking.", show_default="5")] = None,
    variant: Annotated[str, typer.Option(help=f"One of {', '.join(VARIANTS)}.")] = "full",
    explain: Annotated[bool, typer.Option("--explain", help="Draw what every score is made of.")] = False,
    rounds: Annotated[
        int | None, typer.Option(help="Most rounds of residual queries, 1 to 3.", show_default="1")
    ] = None,
    where: Conditions = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Scan every vector instead of using the index.")
    ] = False,
    replay: Annotated[
        int | None,
        typer.Option(
            metavar="LOG_ID",
            help="Rank a logged search again from its logged choices, instead of asking.",
            show_default=False,
        ),
    ] = None,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Rank the passages that answer a question together."""
    from evireform.cli import render
    from evireform.cli.explain import explanation

    if replay is None and not questions:
        raise UsageError("give questions, - to read them from standard input, or --replay with a log id")
    if replay is not None and questions:
        raise UsageError("--replay ranks the question of its log: give questions or --replay, not both")
    take_spending_flags(session, budget, no_cache)
    if k is not None:
        session.flags["search.k"] = str(k)
    if rounds is not None:
        session.flags["search.rounds"] = str(rounds)
    if exact:
        session.flags["search.exact"] = "true"
    if replay is not None:
        _refuse_with_replay(session, variant=variant, explain=explain, where=where)
        with session.connect() as db:
            again = db.corpus(corpus).replay(replay)
        session.show({"corpus": corpus, "replay": asdict(again)}, render.replay(again))
        return
    texts: list[str] = []
    for given in questions or ():
        texts += _questions_of_stdin() if given == "-" else [given]
    if not all(text.strip() for text in texts):
        raise UsageError("the question is empty")
    filter_by = parse(where or ())
    with session.connect() as db:
        target = db.corpus(corpus)
        with session.waiting("searching"):
            rankings = target.search_many(texts, variant=variant, where=filter_by)
    drawn = [explanation(ranking) if explain else render.ranking(ranking) for ranking in rankings]
    document = {"corpus": corpus, "rankings": [asdict(ranking) for ranking in rankings]}
    session.show(document, *drawn)


def _refuse_with_replay(
    session: Session, *, variant: str, explain: bool, where: Sequence[str] | None
) -> None:
    """A replay takes everything from the log: what is given beside it would count for nothing.

    Raises:
        UsageError: something is.
    """
    sections = ("answer", "embedding", "language", "search")
    given = [key for key in session.flags if key.partition(".")[0] in sections]
    given += [*(["--variant"] if variant != "full" else []), *(["--explain"] if explain else [])]
    given += ["--where"] if where else []
    if given:
        raise UsageError(f"--replay ranks by the logged choices and settings: leave out {', '.join(given)}")


def _questions_of_stdin() -> Iterable[str]:
    """Questions on standard input, one a line; blank lines are none.

    Raises:
        InputError: a line is not UTF-8.
    """
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError as exc:
            raise InputError(
                f"line {number} of standard input is not UTF-8", path="-", line_number=number
            ) from exc
        if text:
            yield text


@takes_session()
def delete(
    session: Session,
    corpus: Corpus,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEYS", help="Keys of passages.", show_default=False, callback=in_utf8),
    ] = None,
    whole_corpus: Annotated[bool, typer.Option("--whole-corpus", help="Delete all of the corpus.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    keep_log: Annotated[
        bool, typer.Option("--keep-log", help="Leave logged searches whole that had a passage in hand.")
    ] = False,
) -> None:
    """Delete passages with all that derives from them, or a whole corpus."""
    from evireform.cli import render

    if whole_corpus == bool(keys):
        raise UsageError("give the keys of passages, or --whole-corpus")
    if whole_corpus and keep_log:
        raise UsageError("the log of a corpus goes with it: leave out --keep-log")
    if keep_log:
        session.flags["keep_log"] = "true"
    with session.connect() as db:
        if whole_corpus:
            held = db.corpus(corpus).status()
            passages = held.ready + held.empty + held.failed
            if not yes:
                confirm(session, f"Delete corpus {corpus} with {render.counted(passages, 'passage')}?")
            db.delete_corpus(corpus)
            document: dict[str, Any] = {"corpus": corpus, "deleted_corpus": True, "passages": passages}
            text = render.safe(f"deleted corpus {corpus} with {render.counted(passages, 'passage')}")
            session.show(document, text)
            return
        deleted = db.corpus(corpus).delete(keys or ())
    missing = sorted(set(keys or ()) - set(deleted))
    document = {"corpus": corpus, "deleted": deleted, "missing": missing}
    session.show(document, render.deletion(deleted, missing))
    if missing:
        raise typer.Exit(1)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def confirm(session: Session, question: str) -> None:
    """Ask before something is deleted for good.

    Raises:
        UsageError: nobody can be asked.
        typer.Exit: with 1, the answer is no.
    """
    from evireform.cli import render

    if session.as_json or not _is_terminal():
        raise UsageError("nobody can be asked here: give --yes to do it for good")
    session.err.print(render.safe(f"{question} [y/N]"), end=" ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        session.note("nothing was done")
        raise typer.Exit(1)


@takes_session()
def status(
    session: Session,
    corpus: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only this corpus, in detail.", show_default=False, callback=in_utf8
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Show queues and workers until Ctrl-C; with --json one line each time.",
        ),
    ] = False,
    interval_s: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Seconds between two looks, from 0.1 to a day (86400).", show_default="2"
        ),
    ] = None,
) -> None:
    """What the corpora hold, which models made them, what failed, what waits, and who works on it."""
    from evireform.cli import render, watching

    if interval_s is not None and not watch:
        raise UsageError("--interval-s is for --watch")
    if interval_s is not None and not 0.1 <= interval_s <= 86_400:
        raise UsageError(f"--interval-s must lie between 0.1 and 86400 seconds, not {interval_s:g}")
    with session.connect() as db:
        if watch:
            watching.watch(session, db, corpus, interval_s or 2.0)
            return
        names = [row.name for row in db.corpora()] if corpus is None else [corpus]
        found = [db.corpus(name).status() for name in names]
        workers = db.workers()
    drawn = [render.corpora(found) if corpus is None else render.corpus(found[0])]
    if workers or any(one.waiting + one.leased for one in found):
        drawn.append(watching.workers(workers))
    document = {"corpora": [asdict(one) for one in found], "workers": [asdict(one) for one in workers]}
    session.show(document, *drawn)
