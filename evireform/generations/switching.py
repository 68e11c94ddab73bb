"""A shadow takes the name of what it replaces, which becomes the shadow; or it is dropped."""

from __future__ import annotations

from evireform.errors import UsageError
from evireform.generations.standing import decisions_apart, differences, pair
from evireform.records import CorpusRow
from evireform.store import corpora, generations
from evireform.store.connection import Store, Transaction


def switch(store: Store, name: str, *, force: bool = False) -> str:
    """Let the shadow of a corpus serve under its name, at one moment for all processes.

    One transaction, in which nobody else writes into either; searches go on. Whoever is writing into the
    corpus is told so with his next write (`CorpusSwitched`), and nothing of his is lost: what he wrote before
    the shadow has, or it is not complete.

    Args:
        store: The database.
        name: The corpus.
        force: Switch although the shadow lacks passages or decisions about entities.

    Returns:
        The name under which what served until now is kept: that of the shadow.

    Raises:
        CorpusNotFound: no corpus has this name.
        CorpusSwitched: somebody else switched it meanwhile.
        UsageError: there is no shadow, it is not complete, or passages wait for a worker.
    """
    with store.transaction() as tx:
        serving, shadow = pair(tx, name)
        generations.lock(tx, serving, shadow)
        _refuse_waiting(tx, serving, shadow)
        if not force:
            _refuse_incomplete(tx, serving, shadow)
        generations.swap_names(tx, serving, shadow)
    return shadow.name


def drop(store: Store, name: str) -> str:
    """Delete the generation of a corpus that does not serve. Returns the name that it had.

    Raises:
        CorpusNotFound: no corpus has this name.
        UsageError: it has no shadow, or is one.
    """
    with store.transaction() as tx:
        serving, shadow = pair(tx, name)
        generations.lock(tx, serving, shadow)
        corpora.delete_corpus(tx, shadow.name)
    return shadow.name


def _refuse_waiting(tx: Transaction, *held: CorpusRow) -> None:
    for corpus in held:
        if waiting := generations.waiting(tx, corpus.corpus_id):
            raise UsageError(
                f"{waiting:,} passages of {corpus.name!r} wait for a worker: let the workers finish, start "
                "the new generation again so that it has them too, and then switch"
            )


def _refuse_incomplete(tx: Transaction, serving: CorpusRow, shadow: CorpusRow) -> None:
    lacking = [
        f"{found.passages:,} {found.kind} (such as {found.keys[0]!r})"
        for found in differences(tx, serving, shadow)
    ]
    said = (
        [f"passages of {shadow.name!r} are not those of {serving.name!r}: {', '.join(lacking)}"]
        if lacking
        else []
    )
    if apart := decisions_apart(tx, serving, shadow):
        said.append(f"{apart:,} decisions about entities are only in one of both")
    if said:
        raise UsageError(
            f"{'; '.join(said)}: `evireform generation start --corpus {serving.name}` brings it up to date, "
            "or force the switch"
        )
