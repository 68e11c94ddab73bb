"""From seeds to ranked passages: the sparse neighbourhood, one propagation step, readout and trace.

Works on many questions at once, so that a batch costs the same few statements as one question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from evireform import propagation, readout, seeds
from evireform.propagation import Array, Incidence
from evireform.records import EarningProposition, RankedPassage, Seed, TraceTerm
from evireform.settings import SearchSettings
from evireform.store import searching
from evireform.store.connection import Transaction
from evireform.store.filtering import Allowed
from evireform.store.searching import Postings, SeedRow, Winner


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """A question whose seeds are chosen: (proposition id, similarity) for it and each residual query."""

    base: tuple[tuple[int, float], ...]
    residual: tuple[tuple[tuple[int, float], ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The ranking of one question, without what went before."""

    passages: tuple[RankedPassage, ...]
    seeds: tuple[Seed, ...]
    vanished: int
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Frame:
    """One question's arrays. Seeds are rows, entities columns; passages come with the neighbourhood."""

    seeds: list[SeedRow]
    sources: Array
    incidence: Incidence
    degree: Array
    max_weight: Array
    entity_ids: list[int]
    displays: list[str]
    alpha: float
    vanished: int
    outflows: Array
    mass: Array
    loops: Array
    hubs: list[int]
    passage_ids: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    size: Array = field(default_factory=lambda: np.zeros(0))
    counts: Incidence = field(default_factory=lambda: sparse.csr_array((0, 0)))
    scores: Array = field(default_factory=lambda: np.zeros(0))
    notes: list[str] = field(default_factory=list)

    @property
    def owners(self) -> NDArray[np.int64]:
        return np.array([seed.passage_id for seed in self.seeds], dtype=np.int64)


def score(
    tx: Transaction,
    corpus_id: int,
    questions: Sequence[Seeded],
    settings: SearchSettings,
    *,
    allowed: Allowed | None,
) -> list[Scored]:
    """Rank the passages that the seeds of each question reach, exactly.

    Args:
        tx: A transaction that sees one snapshot.
        corpus_id: The corpus.
        questions: Seeds with their similarities.
        settings: ``alpha``, ``beta``, ``propagate``, ``hub_degree`` and ``depth`` count here.
        allowed: What the filter of ``settings`` allows: other seeds and passages are left out, as if they had
            vanished. Degrees stay those of the corpus.

    Returns:
        One result a question, in order.
    """
    wanted = {i for q in questions for part in (q.base, *q.residual) for i, _ in part}
    rows = searching.seeds(tx, corpus_id, sorted(wanted)) if wanted else {}
    if allowed is not None:
        kept = set(allowed.among(row.passage_id for row in rows.values()).tolist())
        rows = {i: row for i, row in rows.items() if row.passage_id in kept}
    frames = [_frame(question, rows, settings) for question in questions]
    light = {
        entity_id
        for frame in frames
        for entity_id in frame.entity_ids
        if frame.alpha < 1 and entity_id not in frame.hubs
    }
    postings = _only(searching.neighbourhood(tx, corpus_id, sorted(light)), allowed)
    for frame in frames:
        _read(frame, postings, skip=set(frame.hubs))
    _add_hubs(tx, corpus_id, frames, postings, settings.depth, allowed)
    return _explain(tx, corpus_id, frames, settings.depth)


def _frame(question: Seeded, rows: Mapping[int, SeedRow], settings: SearchSettings) -> _Frame:
    """Mix the signals and take the propagation step, as far as the seeds alone allow."""
    parts = [[(i, u) for i, u in part if i in rows] for part in (question.base, *question.residual)]
    wanted = {i for part in (question.base, *question.residual) for i, _ in part}
    ids = list(dict.fromkeys(i for part in parts for i, _ in part))
    row_of = {i: row for row, i in enumerate(ids)}
    similarity = np.zeros((len(parts), len(ids)))
    for source, part in enumerate(parts):
        for i, u in part:
            similarity[source, row_of[i]] = u
    signals = np.array([seeds.normalised(row) for row in similarity]).reshape(similarity.shape)
    sources = seeds.mix(signals[0], signals[1:], beta=settings.beta)

    chosen = [rows[i] for i in ids]
    # In the order of the seeds, never of the ids, so that a rebuilt index adds and shows in the same order.
    entity_ids = list(dict.fromkeys(e for seed in chosen for e in seed.entity_ids))
    column = {e: position for position, e in enumerate(entity_ids)}
    edges = [(row, column[e]) for row, seed in enumerate(chosen) for e in seed.entity_ids]
    incidence = sparse.csr_array(
        (np.ones(len(edges)), ([row for row, _ in edges], [c for _, c in edges])),
        shape=(len(ids), len(entity_ids)),
    )
    degree, max_weight = np.ones(len(entity_ids)), np.zeros(len(entity_ids))
    displays = [""] * len(entity_ids)
    for seed in chosen:
        facts = zip(seed.entity_ids, seed.degrees, seed.max_weights, seed.displays, strict=True)
        for e, d, weight, display in facts:
            degree[column[e]], max_weight[column[e]], displays[column[e]] = d, weight, display
    alpha = settings.alpha if settings.propagate else 1.0
    outflows = propagation.outflow(sources, incidence, degree)
    x = outflows.sum(axis=0)
    hub = degree > settings.hub_degree if settings.hub_degree else np.zeros(len(degree), dtype=bool)
    return _Frame(
        seeds=chosen,
        sources=sources,
        incidence=incidence,
        degree=degree,
        max_weight=max_weight,
        entity_ids=entity_ids,
        displays=displays,
        alpha=alpha,
        vanished=len(wanted) - len(ids),
        outflows=outflows,
        mass=propagation.entity_mass(x, incidence, degree),
        loops=propagation.self_loop(x, incidence, degree),
        hubs=[entity_ids[c] for c in np.flatnonzero(hub)] if alpha < 1 else [],
    )


def _read(
    frame: _Frame,
    postings: Mapping[int, Postings],
    *,
    skip: set[int],
    only: NDArray[np.int64] | None = None,
) -> None:
    """Assemble ``n_je`` of the passages in reach and score them; ``only`` keeps some of the passages."""
    found = [
        (column, postings[e])
        for column, e in enumerate(frame.entity_ids)
        if frame.alpha < 1 and e in postings and e not in skip
    ]
    owners = frame.owners
    owner_sizes = np.array([seed.passage_size for seed in frame.seeds], dtype=np.float64)
    ids = np.concatenate([owners, *(p.passage_ids for _, p in found)])
    sizes = np.concatenate([owner_sizes, *(p.sizes for _, p in found)])
    frame.passage_ids, first = np.unique(ids, return_index=True)
    frame.size = sizes[first]
    place = np.searchsorted(frame.passage_ids, ids)[len(owners) :]
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(np.full(len(p.counts), c) for c, p in found)])
    values = np.concatenate([np.zeros(0), *(p.counts for _, p in found)])
    frame.counts = sparse.csr_array(
        (values, (place, columns)), shape=(len(frame.passage_ids), len(frame.entity_ids))
    )
    owner_rows = np.searchsorted(frame.passage_ids, owners)
    frame.scores = readout.passage_scores(
        frame.sources.sum(axis=0), frame.loops, owner_rows, frame.counts, frame.mass, frame.size,
        alpha=frame.alpha,
    )  # fmt: skip
    if only is not None:
        frame.scores = np.where(np.isin(frame.passage_ids, only), frame.scores, 0.0)


def _add_hubs(
    tx: Transaction,
    corpus_id: int,
    frames: Sequence[_Frame],
    postings: Mapping[int, Postings],
    k: int,
    allowed: Allowed | None,
) -> None:
    """Count the hub entities: for the passages that can still be among the first k, or else for all.

    Where a filter allows few, it lists them: then a hub need not be read for all of its passages.
    """
    bounded: list[tuple[_Frame, NDArray[np.int64]]] = []
    full: list[_Frame] = []
    for frame in frames:
        if not frame.hubs:
            continue
        columns = [frame.entity_ids.index(e) for e in frame.hubs]
        reach = readout.hub_reach(frame.mass[columns], frame.max_weight[columns], alpha=frame.alpha)
        kept = readout.survivors(frame.scores, reach, k)
        if kept is None:
            frame.notes.append(f"hubs: the bound did not hold, so {len(columns)} were read in full")
            full.append(frame)
        else:
            bounded.append((frame, frame.passage_ids[kept]))
    if full:
        hubs = sorted({e for frame in full for e in frame.hubs})
        if allowed is not None and allowed.few:
            read = {**postings, **searching.hub_counts(tx, corpus_id, hubs, allowed.passage_ids.tolist())}
        else:
            read = {**postings, **_only(searching.neighbourhood(tx, corpus_id, hubs), allowed)}
        for frame in full:
            _read(frame, read, skip=set())
    if bounded:
        hubs = sorted({e for frame, _ in bounded for e in frame.hubs})
        passages = sorted({int(j) for _, kept in bounded for j in kept})
        read = {**postings, **searching.hub_counts(tx, corpus_id, hubs, passages)}
        for frame, kept in bounded:
            _read(frame, read, skip=set(), only=kept)


def _only(postings: Mapping[int, Postings], allowed: Allowed | None) -> Mapping[int, Postings]:
    """The allowed passages of each entity."""
    if allowed is None:
        return postings
    kept = allowed.among(i for one in postings.values() for i in one.passage_ids.tolist())
    within = {e: np.isin(one.passage_ids, kept) for e, one in postings.items()}
    return {
        e: Postings(
            passage_ids=one.passage_ids[within[e]], counts=one.counts[within[e]], sizes=one.sizes[within[e]]
        )
        for e, one in postings.items()
    }


def _explain(tx: Transaction, corpus_id: int, frames: Sequence[_Frame], k: int) -> list[Scored]:
    """Order the passages, and fetch what the first k of each question show."""
    contenders = [readout.cut(frame.scores, k)[1] for frame in frames]
    tied = {
        int(frame.passage_ids[row])
        for frame, rows in zip(frames, contenders, strict=True)
        for row in rows[readout.tied(frame.scores[rows])]
    }
    keys = searching.passage_keys(tx, corpus_id, sorted(tied)) if tied else {}
    orders = []
    for frame, contending in zip(frames, contenders, strict=True):
        names = [keys.get(int(j), "") for j in frame.passage_ids[contending]]
        best = readout.order(frame.scores[contending], names, k)
        orders.append([int(contending[row]) for row in best])
    winners = searching.winners(
        tx,
        corpus_id,
        sorted({int(f.passage_ids[row]) for f, rows in zip(frames, orders, strict=True) for row in rows}),
        entity_ids=sorted({e for frame in frames if frame.alpha < 1 for e in frame.entity_ids}),
        proposition_ids=sorted({seed.proposition_id for frame in frames for seed in frame.seeds}),
    )
    results = []
    for frame, rows in zip(frames, orders, strict=True):
        edges = frame.incidence.nonzero()
        counts = frame.counts[np.array(rows, dtype=np.int64)].toarray()
        passages = tuple(
            _ranked(frame, row, rank, winners[int(frame.passage_ids[row])], edges, counts[rank - 1])
            for rank, row in enumerate(rows, start=1)
        )
        masses = frame.sources.sum(axis=0)
        shown = tuple(
            Seed(
                proposition_id=seed.proposition_id,
                passage_key=seed.passage_key,
                ordinal=seed.ordinal,
                text=seed.text,
                mass=float(mass),
                entities=seed.displays,
            )
            for seed, mass in zip(frame.seeds, masses, strict=True)
        )
        results.append(
            Scored(passages=passages, seeds=shown, vanished=frame.vanished, notes=tuple(frame.notes))
        )
    return results


def _ranked(
    frame: _Frame,
    row: int,
    rank: int,
    winner: Winner,
    edges: readout.Edges,
    counts: Array,
) -> RankedPassage:
    passage_id = int(frame.passage_ids[row])
    terms = readout.trace_terms(
        frame.sources,
        frame.outflows,
        edges,
        frame.degree,
        frame.owners == passage_id,
        counts,
        float(frame.size[row]),
        alpha=frame.alpha,
    )
    trace = tuple(
        TraceTerm(
            query=source,
            seed_id=frame.seeds[seed].proposition_id,
            entity="" if entity < 0 else frame.displays[entity],
            value=value,
        )
        for source, seed, entity, value in sorted(terms, key=lambda term: -term[3])
    )
    return RankedPassage(
        rank=rank,
        passage_key=winner.passage_key,
        score=float(frame.scores[row]),
        title=winner.title,
        text=winner.text,
        metadata=winner.metadata,
        propositions=_earnings(frame, winner, float(frame.size[row])),
        trace=trace,
    )


def _earnings(frame: _Frame, winner: Winner, size: float) -> tuple[EarningProposition, ...]:
    """The share of each proposition of the passage: ``z_i / sqrt(|P_j|)``, best first, zero left out."""
    column = {e: position for position, e in enumerate(frame.entity_ids)}
    row_of = {seed.proposition_id: row for row, seed in enumerate(frame.seeds)}
    signal = frame.sources.sum(axis=0)
    earned = []
    for proposition_id, ordinal, text, span, entity_ids in winner.propositions:
        columns = sorted(column[e] for e in entity_ids if e in column)
        z = (1.0 - frame.alpha) * float(frame.mass[columns].sum())
        if proposition_id in row_of:
            row = row_of[proposition_id]
            z += frame.alpha * signal[row] - (1.0 - frame.alpha) * frame.loops[row]
        value = float(z / np.sqrt(size))
        if round(value, readout.DECIMALS) > 0:
            earned.append(
                EarningProposition(
                    proposition_id=proposition_id,
                    ordinal=ordinal,
                    text=text,
                    score=value,
                    span=span,
                    entities=tuple(frame.displays[c] for c in columns),
                )
            )
    return tuple(sorted(earned, key=lambda earning: (-earning.score, earning.ordinal)))
