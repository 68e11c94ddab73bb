"""An entity that very many propositions name costs a search no more than one that some name."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from evireform.records import ExtractedProposition, Extraction, Passage, Ranking
from evireform.store.connection import Store
from tests.jobs.indexes import ingest, keys, rows, search
from tests.scale import scaled

SMALL = 1_000
LARGE = scaled(3_000, 50_000)
A_PASSAGE = 10
QUESTION = "What does the hub say of 7?"


def passages(propositions: int) -> Iterator[Passage]:
    for number in range(propositions // A_PASSAGE):
        yield Passage(key=f"p{number:05}", text=f"Text {number}.")


def extractions(propositions: int) -> dict[str, Extraction]:
    """Ten propositions a passage: each names the hub, and one that only its neighbours name."""
    return {
        passage.key: Extraction(
            propositions=tuple(
                ExtractedProposition(
                    text=f"The hub says {part} of {number}.", entities=("Hub", f"Own {number // 3}")
                )
                for part in range(A_PASSAGE)
            )
        )
        for number, passage in enumerate(passages(propositions))
    }


@pytest.fixture(scope="module")
def hubs(shared_store: Store) -> Store:
    """Corpora ``small`` and ``large``, whose one hub is named by all of their propositions."""
    for name, propositions in (("small", SMALL), ("large", LARGE)):
        made = extractions(propositions)
        summary = ingest(shared_store, name, passages(propositions), extractions=made)
        assert summary.added == propositions // A_PASSAGE
    assert rows(shared_store, "SELECT degree FROM entity WHERE canonical = 'hub' ORDER BY 1") == [
        (SMALL,), (LARGE,),
    ]  # fmt: skip
    return shared_store


def measured(store: Store, name: str, *, hub_degree: int) -> tuple[Ranking, int]:
    """A search after a first one, and the most memory that it took beyond what was there before."""
    search(store, name, QUESTION, hub_degree=hub_degree)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        ranking = search(store, name, QUESTION, hub_degree=hub_degree)
        return ranking, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_t16_a_search_reads_no_more_rows_around_a_larger_hub(hubs: Store) -> None:
    (small, _), (large, _) = (measured(hubs, name, hub_degree=500) for name in ("small", "large"))
    assert small.notes == large.notes == ()
    assert large.cost.statements == small.cost.statements
    assert large.cost.rows <= small.cost.rows + 5


def test_t16_a_search_takes_no_more_memory_around_a_larger_hub(hubs: Store) -> None:
    (_, small), (_, large) = (measured(hubs, name, hub_degree=500) for name in ("small", "large"))
    assert large < 1.5 * small


def test_t16_what_is_left_unread_of_a_hub_does_not_change_the_ranking(hubs: Store) -> None:
    whole, bounded = (search(hubs, "large", QUESTION, hub_degree=degree) for degree in (0, 500))
    assert keys(bounded) == keys(whole)
    assert [p.score for p in bounded.passages] == pytest.approx([p.score for p in whole.passages], abs=1e-12)


def test_t16_the_measure_of_memory_sees_a_hub_that_is_read_in_full(hubs: Store) -> None:
    (_, small), (_, large) = (measured(hubs, name, hub_degree=0) for name in ("small", "large"))
    assert large > small
