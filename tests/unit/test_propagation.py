"""Seeds, propagation and readout against the dense definition (SPEC section 2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from evireform import propagation, readout, seeds

K = 4


def pinv(values):
    return np.diag([1.0 / v if v else 0.0 for v in values])


def dense_scores(A, owner, passages, s, alpha):
    """The method as it is defined: build W and T for the whole corpus and multiply."""
    D = pinv(A.sum(axis=0))
    full = A @ D @ A.T
    W = full - np.diag(np.diag(full))
    T = W @ pinv(W.sum(axis=1))
    z = alpha * s + (1 - alpha) * T @ s
    size = np.bincount(owner, minlength=passages)
    return np.array([z[owner == j].sum() / np.sqrt(size[j]) for j in range(passages)]), z


def sparse_parts(A, owner, passages, seed_ids):
    counts = np.zeros((passages, A.shape[1]))
    np.add.at(counts, owner, A)
    used = A[seed_ids].sum(axis=0) > 0
    return (
        sparse.csr_array(A[seed_ids][:, used]),
        A.sum(axis=0)[used],
        sparse.csr_array(counts[:, used]),
        np.bincount(owner, minlength=passages).astype(float),
    )


@st.composite
def graphs(draw):
    passages = draw(st.integers(1, 6))
    owner = np.array(
        sorted(list(range(passages)) + draw(st.lists(st.integers(0, passages - 1), max_size=10)))
    )
    entities = draw(st.integers(1, 7))
    bits = draw(st.lists(st.booleans(), min_size=len(owner) * entities, max_size=len(owner) * entities))
    A = np.array(bits, dtype=float).reshape(len(owner), entities)
    if draw(st.booleans()):
        A[:, 0] = 1.0  # a hub
    if draw(st.booleans()):
        A[0, :] = 0.0  # an isolated proposition
    if draw(st.booleans()):
        A[:, -1] = 0.0
        A[-1, -1] = 1.0  # an entity of degree 1
    seed_ids = draw(st.lists(st.integers(0, len(owner) - 1), min_size=1, max_size=6, unique=True))
    mass = np.array(draw(st.lists(st.floats(0.01, 1), min_size=len(seed_ids), max_size=len(seed_ids))))
    alpha = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    beta = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return A, owner, passages, np.array(seed_ids), mass, alpha, beta


def scores_of(graph):
    A, owner, passages, seed_ids, mass, alpha, beta = graph
    incidence, degree, counts, size = sparse_parts(A, owner, passages, seed_ids)
    sources = seeds.mix(seeds.normalised(mass), seeds.normalised(mass[::-1])[None, :], beta=beta)
    signal = sources.sum(axis=0)
    x = propagation.outflow(signal, incidence, degree)
    m = propagation.entity_mass(x, incidence, degree)
    loops = propagation.self_loop(x, incidence, degree)
    got = readout.passage_scores(signal, loops, owner[seed_ids], counts, m, size, alpha=alpha)
    dense = np.zeros(len(owner))
    dense[seed_ids] = signal
    return got, dense_scores(A, owner, passages, dense, alpha)[0], sources, incidence, degree, counts, size


@given(graphs())
@settings(max_examples=400, deadline=None)
def test_scores_equal_the_dense_definition(graph):
    got, expected, *_ = scores_of(graph)
    np.testing.assert_allclose(got, expected, atol=1e-12, rtol=0)


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_t17_trace_terms_sum_to_the_score(graph):
    _, owner, passages, seed_ids, _, alpha, _ = graph
    got, _, sources, incidence, degree, counts, size = scores_of(graph)
    outflows = propagation.outflow(sources, incidence, degree)
    for j in range(passages):
        terms = readout.trace_terms(
            sources,
            outflows,
            incidence.nonzero(),
            degree,
            owner[seed_ids] == j,
            counts.toarray()[j],
            size[j],
            alpha=alpha,
        )
        assert sum(term[3] for term in terms) == pytest.approx(got[j], abs=1e-9)
        assert all(term[3] > 0 for term in terms)


@given(graphs(), st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=400, deadline=None)
def test_the_hub_bound_never_changes_the_first_k(graph, k, hub_degree):
    A, owner, passages, seed_ids, mass, alpha, _ = graph
    incidence, degree, counts, size = sparse_parts(A, owner, passages, seed_ids)
    signal = seeds.normalised(mass)
    x = propagation.outflow(signal, incidence, degree)
    m = propagation.entity_mass(x, incidence, degree)
    loops = propagation.self_loop(x, incidence, degree)
    owners = owner[seed_ids]
    exact = readout.passage_scores(signal, loops, owners, counts, m, size, alpha=alpha)
    keys = [f"p{j}" for j in range(passages)]
    hub = degree > hub_degree
    weight = (counts.toarray() / np.sqrt(size)[:, None]).max(axis=0)
    light = readout.passage_scores(signal, loops, owners, counts, np.where(hub, 0.0, m), size, alpha=alpha)
    seen = (counts.toarray()[:, ~hub].sum(axis=1) > 0) | np.isin(np.arange(passages), owners)
    reach = readout.hub_reach(m[hub], weight[hub], alpha=alpha)
    rows = np.flatnonzero(seen)
    kept = readout.survivors(light[rows], reach, k)
    if kept is not None:
        bounded = np.zeros(passages)
        bounded[rows[kept]] = exact[rows[kept]]
        assert readout.order(bounded, keys, k) == readout.order(exact, keys, k)


def test_mass_moves_by_hand():
    """Two propositions of two passages share one entity; the seed hands all its mass to the other."""
    A = sparse.csr_array(np.array([[1.0]]))
    degree = np.array([2.0])
    signal = np.array([1.0])
    x = propagation.outflow(signal, A, degree)
    m = propagation.entity_mass(x, A, degree)
    loops = propagation.self_loop(x, A, degree)
    counts = sparse.csr_array(np.array([[1.0], [1.0]]))
    scores = readout.passage_scores(signal, loops, np.array([0]), counts, m, np.array([1.0, 4.0]), alpha=0.5)
    assert scores.tolist() == [0.5, 0.25]


def test_an_isolated_proposition_neither_gives_nor_receives():
    A = sparse.csr_array(np.array([[1.0]]))
    assert propagation.outflow(np.array([1.0]), A, np.array([1.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: seeds.mix(np.ones(1), np.ones((1, 2)), beta=0.5), "do not fit"),
        (lambda: seeds.mix(np.ones(1), np.ones((1, 1)), beta=1.5), "beta"),
        (lambda: propagation.row_sums(sparse.csr_array(np.ones((1, 1))), np.array([0.0])), "degree"),
        (lambda: propagation.row_sums(sparse.csr_array(np.ones((1, 1))), np.ones(2)), "does not fit"),
        (lambda: propagation.outflow(np.ones(2), sparse.csr_array(np.ones((1, 1))), np.ones(1)), "signal"),
        (
            lambda: readout.passage_scores(
                np.ones(1), np.ones(1), np.zeros(1, dtype=int), sparse.csr_array(np.ones((1, 1))),
                np.ones(1), np.ones(1), alpha=-0.1,
            ),
            "alpha",
        ),
        (
            lambda: readout.passage_scores(
                np.ones(1), np.ones(1), np.zeros(1, dtype=int), sparse.csr_array(np.ones((1, 1))),
                np.ones(2), np.ones(1), alpha=0.5,
            ),
            "do not fit",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
