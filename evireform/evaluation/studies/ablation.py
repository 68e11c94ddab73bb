"""Ablation: reformulation and propagation, each alone, both, and neither."""

from __future__ import annotations

from collections.abc import Sequence

from evireform.evaluation.plan import Plan, Setup


def methods(_: Setup) -> list[str]:
    return ["base", "propagation", "reformulation", "full", "dense"]


def pairs(_: Sequence[str]) -> list[tuple[str, str]]:
    """Each component with the other one there, and without it."""
    return [
        ("full", "propagation"),
        ("full", "reformulation"),
        ("full", "base"),
        ("propagation", "base"),
        ("reformulation", "base"),
        ("full", "dense"),
    ]


PLAN = Plan(title="What reformulation and propagation each contribute", methods=methods, pairs=pairs)
