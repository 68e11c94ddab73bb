"""A corpus in which half of the propositions name one entity, beside the same without it."""

from __future__ import annotations

from benchmarks import environment

if __name__ == "__main__":
    environment.require("benchmarks.hub")

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks import machine, resident, synthetic
from benchmarks.compare import Times, open_index
from benchmarks.concurrency import corpus
from benchmarks.doubles import PreparedQuestion
from benchmarks.sides import alternately, searching, table
from benchmarks.synthetic import Ids, SyntheticCorpus
from evireform.records import Ranking
from evireform.store import corpora
from evireform.store.connection import Store


@dataclass(frozen=True, kw_only=True)
class HubCorpus(SyntheticCorpus):
    """The synthetic corpus whose most frequent entity is also named by the first ``hub`` propositions."""

    hub: int

    @cached_property
    def incidence(self) -> tuple[Ids, Ids]:
        plain = SyntheticCorpus(propositions=self.propositions, seed=self.seed)
        propositions, entities = plain.incidence
        named = propositions * self.propositions + entities
        pairs = np.unique(np.concatenate([named, np.arange(self.hub) * self.propositions]))
        return pairs // self.propositions, pairs % self.propositions


def hub_corpus(store: Store, propositions: int, hub: int) -> str:
    """The corpus with the hub, made where it is missing; its name."""
    name = f"synthetic-{propositions}-hub-{hub}"
    with store.transaction() as tx:
        there = corpora.find_corpus(tx, name)
    if there is None:
        synthetic.load(store, name, HubCorpus(propositions=propositions, hub=hub))
    return name


def measure(
    store: Store, plain: str, with_hub: str, questions: Sequence[PreparedQuestion]
) -> tuple[dict[str, Times], dict[str, list[Ranking]]]:
    """Times and rankings in both corpora, whose vectors are the same."""
    names = {"without the hub": plain, "with the hub": with_hub}
    return alternately({side: searching(store, name, questions) for side, name in names.items()}, questions)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub", description=__doc__)
    parser.add_argument("--propositions", type=int, default=100_000, help="of both corpora (100000)")
    parser.add_argument("--hub", type=int, default=50_000, help="propositions that name the hub (50000)")
    parser.add_argument("--questions", type=int, default=100, help="asked of both, in turns (100)")
    parser.add_argument("--home", type=Path, help="folder of the embedded server that keeps the corpora")
    options = parser.parse_args()
    home = options.home or machine.bench_home()
    with machine.database(home) as url, machine.opened(url) as store:
        plain = corpus(store, options.propositions)
        with_hub = hub_corpus(store, options.propositions, options.hub)
        questions = synthetic.questions(open_index(store, plain)[1].vectors, options.questions)
        times, rankings = measure(store, plain, with_hub, questions)
        print("\n".join(table(times)))
        for side, name in (("without the hub", plain), ("with the hub", with_hub)):
            first, last = resident.measure(home, name, questions)
            rows = max(ranking.cost.rows for ranking in rankings[side])
            read = sum(any("read in full" in note for note in ranking.notes) for ranking in rankings[side])
            print(
                f"{side}: peak memory of a process that searches {first / 1e6:.0f} MB after one search, "
                f"{last / 1e6:.0f} MB after {len(questions)}; at most {rows} rows a search; "
                f"{read} searches read a hub in full"
            )


if __name__ == "__main__":
    main()
