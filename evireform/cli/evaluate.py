"""`evireform evaluate`: methods and studies over an evaluation set."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evireform.baselines import NAMES as BASELINES
from evireform.cli.commands import (
    Budget,
    Extractions,
    NoCache,
    TitlesOption,
    in_utf8,
    take_spending_flags,
)
from evireform.cli.session import Session, takes_session
from evireform.errors import InputError, UsageError
from evireform.settings import VARIANTS

if TYPE_CHECKING:
    from evireform.database import Database
    from evireform.settings import EmbeddingSettings


class StudyOption(StrEnum):
    """The studies."""

    ablation = "ablation"
    controls = "controls"
    coverage = "coverage"
    cost = "cost"
    embeddings = "embeddings"
    growth = "growth"
    sensitivity = "sensitivity"


@takes_session()
def evaluate(
    session: Session,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of an evaluation set (corpus.jsonl and questions.jsonl, or a published format), "
            "or the file of one split.",
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help=f"Comma-separated: {', '.join((*VARIANTS, *BASELINES))}; each may carry settings, such as "
            "full@alpha=0.25@selected=6 or bm25@k1=0.9.",
            show_default="dense,base,propagation,reformulation,full",
        ),
    ] = None,
    study: Annotated[
        StudyOption | None,
        typer.Option(
            metavar="NAME",
            help=f"Run a whole study instead, with a report: {', '.join(StudyOption)}.",
            show_default=False,
        ),
    ] = None,
    corpus: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Corpus to use.",
            show_default="named after set and settings",
            callback=in_utf8,
        ),
    ] = "",
    titles: Annotated[TitlesOption, typer.Option(help="Whether titles join the text.")] = TitlesOption.on,
    extractions: Extractions = None,
    data_format: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="Format of the set.", show_default="told by the files"),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results, report, runs and outcomes are written; what is there is not made again.",
            show_default="./runs/<set>-<titles>[-<study>]",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first questions; 0 takes all.")] = 0,
    sample: Annotated[
        int, typer.Option(min=0, metavar="N", help="Only N questions, drawn at random; 0 takes all.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="What the sample is drawn with.")] = 0,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers",
            help="Answer too (F1, exact match): from the first of --methods (or full); in a study from each.",
        ),
    ] = False,
    embedding: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SETTINGS",
            help="A further model for --study embeddings, such as "
            "backend=sentence-transformers,model=BAAI/bge-m3; may be repeated.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            "--show",
            metavar="QUESTION_ID",
            help="Draw one question of an earlier run instead: what every method made of it, and where its "
            "gold passages were lost. DIR may then be the folder of the run.",
            show_default=False,
            callback=in_utf8,
        ),
    ] = None,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Measure several methods on an evaluation set, or run a study of it.

    An interrupted run goes on where it was when it is started again.

    The exit code is 1 where passages are missing or a fall-back was taken; the report begins with that.
    """
    if study is not None and methods is not None:
        raise UsageError("a study has its own methods: give --methods or --study, not both")
    if embedding and study is not StudyOption.embeddings:
        raise UsageError("--embedding names models for --study embeddings")
    take_spending_flags(session, budget, no_cache)
    if output is None:
        parts = [data.resolve().stem if data.is_file() else data.resolve().name]
        parts += [*(["extractions"] if extractions else []), titles.value, *([study.value] if study else [])]
        output = Path("runs", "-".join(parts))
    if show is not None:
        _show(session, data if (data / "results.json").is_file() else output, show)
        return
    options: dict[str, Any] = {
        "corpus_name": corpus,
        "titles": titles.value,
        "extractions": extractions,
        "data_format": data_format,
        "output": output,
        "limit": limit,
        "sample": sample,
        "seed": seed,
    }
    others = [embedding_settings(text) for text in embedding or ()]
    before = _command(output)
    with session.connect(standby=False) as db, session.progress("ingest") as advance:
        known = {row.name for row in db.corpora()}
        given = {
            "encoder": db.encoder,
            "language": db.language,
            "settings": db.settings.search,
            "progress": advance,
            **options,
        }
        if study is None:
            shortfalls = _methods(session, db, data, methods, answers, given)
        else:
            shortfalls = _study(session, db, data, study, answers, others, given)
        if {row.name for row in db.corpora()} - known:
            session.note_language()
    if before not in ("", _command(output)):
        session.note(f"the report of `{before}` in {output} was replaced; its outcomes are still there")
    session.note(f"report, results, runs and outcomes are in {output}")
    if shortfalls:
        raise typer.Exit(1)


def _command(directory: Path) -> str:
    """Options of the study that a folder holds; empty where it holds none that can be read."""
    from evireform.evaluation import files

    try:
        return files.read_study(directory).command
    except InputError:
        return ""


def embedding_settings(text: str) -> EmbeddingSettings:
    """Settings of an embedding model from ``key=value,key=value``.

    Raises:
        UsageError: a key is none, or a value cannot be one.
    """
    from evireform.cli.config import load_settings

    flags = {}
    for assignment in text.split(","):
        key, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--embedding {text!r}: {assignment!r} is not KEY=VALUE")
        flags[f"embedding.{key.strip()}"] = value
    return load_settings(flags, {}, None).settings.embedding


def _show(session: Session, directory: Path, key: str) -> None:
    from evireform.cli import shown as drawing
    from evireform.evaluation import shown

    found = shown.show(directory, key)
    session.show(asdict(found), drawing.question(found))


def _methods(
    session: Session,
    db: Database,
    data: Path,
    methods: str | None,
    answers: bool,
    given: dict[str, Any],
) -> tuple[str, ...]:
    """Run methods, show what they measure, and give back what falls short of that."""
    from evireform import evaluation
    from evireform.cli import render

    chosen = [name.strip() for name in methods.split(",")] if methods else list(evaluation.METHODS)
    result = evaluation.evaluate(
        db.store,
        data,
        methods=chosen,
        answered=(chosen[0] if methods else "full") if answers else "",
        answer=db.settings.answer,
        **given,
    )
    session.show({**asdict(result), "output": str(given["output"])}, render.evaluation(result))
    return result.shortfalls


def _study(
    session: Session,
    db: Database,
    data: Path,
    study: StudyOption,
    answers: bool,
    others: list[EmbeddingSettings],
    given: dict[str, Any],
) -> tuple[str, ...]:
    """Run a study, show it, and give back what falls short of it."""
    from evireform import evaluation
    from evireform.cli import studying

    result = evaluation.study(
        db.store,
        data,
        study.value,
        answers=db.settings.answer if answers else None,
        embeddings=others,
        **given,
    )
    session.show({**asdict(result), "output": str(given["output"])}, studying.study(result))
    return result.shortfalls
