"""`evireform demo`: the main job on the corpus that ships with the package, without any setting."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from evireform.cli.commands import holds
from evireform.cli.session import Session, program, takes_session
from evireform.errors import UsageError

CORPUS = "sample"


@takes_session()
def demo(
    session: Session,
    number: Annotated[int, typer.Argument(help="Which of the sample questions to ask.")] = 5,
) -> None:
    """Ingest the sample corpus, ask what no single passage answers, and show why it ranks so."""
    from rich.text import Text

    from evireform.cli import render
    from evireform.cli.explain import explanation
    from evireform.formats.passages import read_passages
    from evireform.formats.questions import read_questions
    from evireform.sample import corpus_path, questions_path

    questions = read_questions(questions_path())
    if not 1 <= number <= len(questions):
        raise UsageError(f"there are sample questions 1 to {len(questions)}, not {number}")
    asked = questions[number - 1]
    with session.connect(standby=False) as db:
        db.init()
        if not holds(db, CORPUS):
            session.note_language()
        corpus = db.corpus(CORPUS, create=True)
        passages = list(read_passages([corpus_path()]))
        with session.progress("passages", len(passages)) as advance:
            summary = corpus.ingest(passages, progress=lambda done: advance("passages", done, 0))
        with session.waiting("searching"):
            ranking = corpus.search(asked.text)
    others = {n: q.text for n, q in enumerate(questions, start=1) if n != number}
    document = {
        "corpus": CORPUS,
        "ingestion": asdict(summary),
        "ranking": asdict(ranking),
        "gold": asked.gold,
        "questions": others,
    }
    session.show(
        document,
        render.ingestion(summary, CORPUS),
        render.ranking(ranking),
        render.safe(f"The passages that answer it together: {', '.join(asked.gold)}", "green"),
        Text("\nWhy it ranks so\n", "bold"),
        explanation(ranking),
        Text(f"\nOther questions, for `{program()} demo NUMBER`; for one of your own:", "bold"),
        Text(f'{program()} search "YOUR QUESTION" --corpus {CORPUS} --explain\n', "cyan"),
        render.examples(others),
    )
