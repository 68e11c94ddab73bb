"""Controls: is it what residual queries say that helps, or more searching, or another order of a pool?"""

from __future__ import annotations

from evireform.evaluation.plan import Plan, Setup, each_against


def methods(setup: Setup) -> list[str]:
    """Every control and baseline; those that need a language model where one is set."""
    asking = ["reorder", "listwise"] if setup.has_model else []
    answering = ["direct"] if setup.has_model and setup.answers is not None else []
    return [
        "full", "residual-only", "repeat-question", "rounds", "bm25", "dense", "dense-proposition",
        "cross-encoder", *asking, *answering,
    ]  # fmt: skip


PLAN = Plan(
    title="The full method against controls and baselines", methods=methods, pairs=each_against("full")
)
