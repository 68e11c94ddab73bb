"""`evireform export` and `evireform import`: a corpus as a folder of files, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evireform.cli.commands import Corpus, in_utf8
from evireform.cli.session import Session, takes_session


@takes_session()
def export(
    session: Session,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; empty, or not there yet.", show_default=False)
    ],
    corpus: Corpus,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors, so that importing needs no model.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the export that DIR holds, and nothing else.")
    ] = False,
) -> None:
    """Write a corpus to a folder of files: the same bytes for the same content, whatever its history."""
    from evireform.cli import render

    with session.connect() as db:
        target = db.corpus(corpus)
        held = target.status()
        with session.progress("passages", held.ready + held.empty + held.failed) as advance:
            manifest = target.export(
                folder,
                vectors=vectors,
                overwrite=overwrite,
                progress=lambda done: advance("passages", done, 0),
            )
    size = sum(file.size for file in manifest.files.values())
    rows = {name: file.rows for name, file in manifest.files.items()}
    text = (
        f"exported {corpus} to {folder}: {render.counted(rows['passages.jsonl'], 'passage')}, {size:,} bytes"
    )
    session.show({"corpus": corpus, "folder": str(folder), "manifest": asdict(manifest)}, render.safe(text))


@takes_session()
def import_(
    session: Session,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that export wrote.", show_default=False)
    ],
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            metavar="NAME",
            help="Name of the new corpus.",
            show_default="as exported",
            callback=in_utf8,
        ),
    ] = None,
) -> None:
    """Make a corpus of exported files. It gets its name when it is whole; interrupted, it can be repeated."""
    from evireform.cli import render

    with session.connect(standby=False) as db, session.progress("checking") as advance:
        made = db.import_corpus(folder, name=corpus, progress=advance)
    held = f"{render.counted(made.passages, 'passage')}, {render.counted(made.propositions, 'proposition')}"
    notes = [
        render.note(f"{number:,} {what}")
        for number, what in (
            (made.embedded, "vectors were not in the files and made anew"),
            (made.unverified, "content hashes cover ready-made extractions and were taken as they are"),
        )
        if number
    ]
    text = render.safe(f"imported {made.name}: {held}")
    session.show({"corpus": made.name, "imported": asdict(made)}, text, *notes)
