"""The edge cases of selection, residual queries and mixing (SPEC section 2)."""

from __future__ import annotations

import numpy as np
import pytest

from evireform import seeds

SIMILARITY = np.array([0.9, 0.8, 0.7, 0.0, -0.2])


def test_positions_that_are_not_candidates_are_ignored():
    assert seeds.choose([7, -1, 1], SIMILARITY, limit=12) == [1]


def test_malformed_positions_are_ignored():
    assert seeds.choose(["0", None, 1.0, True, [2], 2], SIMILARITY, limit=12) == [2]


def test_repeated_positions_count_once():
    assert seeds.choose([2, 2, 0, 2], SIMILARITY, limit=12) == [2, 0]


def test_of_too_many_positions_the_first_count():
    assert seeds.choose([2, 1, 0], SIMILARITY, limit=2) == [2, 1]


def test_candidates_without_positive_similarity_cannot_be_selected():
    assert seeds.choose([3, 4, 1], SIMILARITY, limit=12) == [1]


def test_no_valid_position_falls_back_to_the_best_candidate():
    assert seeds.choose([3, 99], SIMILARITY, limit=12) == [0]


def test_no_positive_candidate_selects_nothing():
    assert seeds.choose([0], np.array([0.0, -0.1]), limit=12) == []
    assert seeds.choose([0], np.zeros(0), limit=12) == []


def test_residual_queries_are_trimmed_and_repeats_dropped_before_the_limit():
    got = seeds.clean_queries(["  a ", "A", "", "\n", "q", "b", "c", "d"], " Q ", limit=3)
    assert got == ["a", "b", "c"]


def test_residual_queries_that_are_not_text_are_dropped():
    assert seeds.clean_queries([None, 3, ["x"], "y"], "q", limit=3) == ["y"]


def test_a_residual_query_without_mass_does_not_count_in_the_mean():
    base = np.array([1.0, 0.0, 0.0])
    residual = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert seeds.mix(base, residual, beta=0.5).sum(axis=0).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_without_a_valid_residual_query_the_signal_is_the_base(beta):
    base = np.array([0.25, 0.75])
    assert seeds.mix(base, np.zeros((2, 2)), beta=beta).sum(axis=0).tolist() == [0.25, 0.75]
    assert seeds.mix(base, np.zeros((0, 2)), beta=beta).sum(axis=0).tolist() == [0.25, 0.75]


def test_beta_zero_leaves_only_the_residual_signal():
    mixed = seeds.mix(np.array([1.0, 0.0]), np.array([[0.0, 1.0]]), beta=0.0)
    assert mixed.sum(axis=0).tolist() == [0.0, 1.0]


def test_beta_one_leaves_only_the_base_signal():
    mixed = seeds.mix(np.array([1.0, 0.0]), np.array([[0.0, 1.0]]), beta=1.0)
    assert mixed.sum(axis=0).tolist() == [1.0, 0.0]


def test_masses_of_one_proposition_add():
    mixed = seeds.mix(np.array([1.0]), np.array([[1.0], [1.0]]), beta=0.5)
    assert mixed.sum(axis=0).tolist() == [1.0]
