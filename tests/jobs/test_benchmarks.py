"""The benchmark compares like with like: exact search in memory and the exact scan rank the same."""

from __future__ import annotations

import sqlalchemy as sa

from benchmarks import compare, synthetic
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from evireform.store.schema import vector_space


def test_both_sides_of_the_benchmark_rank_the_same(store: Store) -> None:
    synthetic.load(store, "synthetic", synthetic.SyntheticCorpus(propositions=600))
    with store.transaction() as tx:
        tx.core(sa.update(vector_space).values(prompts={"question": "Question: {text}"}))
    space, index = compare.open_index(store, "synthetic")
    questions = synthetic.questions(index.vectors, 5)
    compared = compare.compare(store, "synthetic", space, index, questions, SearchSettings())
    assert (compared.propositions, compared.recall, compared.exact_agreement) == (600, 1.0, 1.0)
