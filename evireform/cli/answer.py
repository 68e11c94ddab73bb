"""`evireform answer`: a short answer with what it rests on, shown on a terminal as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from evireform.cli.commands import Budget, Conditions, Corpus, NoCache, in_utf8, take_spending_flags
from evireform.cli.session import Session, takes_session
from evireform.errors import UsageError
from evireform.filters import parse
from evireform.settings import VARIANTS

if TYPE_CHECKING:
    from rich.console import Group

    from evireform.records import Answer


@takes_session()
def answer(
    session: Session,
    question: Annotated[str, typer.Argument(metavar="QUESTION", callback=in_utf8)],
    corpus: Corpus,
    variant: Annotated[str, typer.Option(help=f"One of {', '.join(VARIANTS)}.")] = "full",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Say unknown where no cited passage contains the answer's names and numbers."
        ),
    ] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Ask the model without any passage, for comparison.")
    ] = False,
    where: Conditions = None,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Answer a question in a few words from the passages that answer it together.

    The exit code is 1 where the reader failed, and 0 where the passages do not say.
    """
    if not question.strip():
        raise UsageError("the question is empty")
    take_spending_flags(session, budget, no_cache)
    for key, wanted in (("answer.strict", strict), ("answer.direct", direct)):
        if wanted:
            session.flags[key] = "true"
    filter_by = parse(where or ())
    if direct and filter_by:
        raise UsageError("an answer without passages cannot be filtered: leave out --where or --direct")
    with session.connect() as db:
        target = db.corpus(corpus)
        with _writing(session) as on_text:
            result = target.answer(question, variant=variant, where=filter_by, on_text=on_text)
    session.show({"corpus": corpus, "answer": asdict(result)}, drawn(result))
    if result.failed:
        raise typer.Exit(1)


@contextmanager
def _writing(session: Session) -> Iterator[Callable[[str], None] | None]:
    """On a terminal, a line that shows the answer as it is written, and goes when it is there."""
    from rich.text import Text

    from evireform.cli.render import safe

    if session.as_json or not session.err.is_terminal:
        yield None
        return
    with session.err.status("searching and reading") as status:
        yield lambda text: status.update(Text.assemble(("writing ", "dim"), safe(text, "bold")))


def drawn(result: Answer) -> Group:
    """The answer, what it cites, and what was read."""
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    from evireform.cli.render import counted, degraded, name_of, note, safe

    parts: list[RenderableType] = [safe(result.question, "bold")]
    if result.unknown:
        parts.append(safe(f"{result.text}: {result.reason}", "yellow"))
    else:
        parts.append(safe(result.text, "bold green"))
    if result.withheld:
        parts.append(safe(f"withheld: {result.withheld}", "dim"))
    if result.citations:
        table = Table()
        table.add_column("cited passage", overflow="fold", ratio=1)
        table.add_column("which says", overflow="fold", ratio=3)
        for citation in result.citations:
            says = Text("\n").join(safe(proposition.text) for proposition in citation.propositions)
            table.add_row(name_of(citation.passage_key, citation.title), says)
        parts.append(table)
    parts += [degraded(text) for text in result.degraded] + [note(text) for text in result.notes]
    read = f"read {counted(len(result.read), 'passage')} of {len(result.read) + len(result.left_out)}"
    size = f"{result.context_tokens} tokens, {result.tokenizer}"
    parts.append(safe(f"{read} ({size})" if result.ranking else "read no passage", "dim"))
    if result.ranking and result.ranking.log_id is not None:
        parts.append(safe(f"logged as {result.ranking.log_id}", "dim"))
    return Group(*parts)
