"""A trial as text, for whoever ran it."""

from __future__ import annotations

from tests.llm.trial import Trial


def report(trial: Trial) -> str:
    """Extraction, each question, tokens by purpose, and everything that was degraded."""
    status, summary = trial.status, trial.ingestion
    lines = [
        f"passages: {status.ready} ready, {status.empty} empty, {status.failed} failed "
        f"({summary.unchanged} from an earlier run; {summary.seconds:.0f} s)",
        f"propositions: {status.propositions} ({summary.unsupported} new ones name what is in no passage); "
        f"entities: {status.entities}; incidence: {status.incidence}",
        *(f"  failed: {row.passage_key}: {row.reason}" for row in status.failures),
        *(f"  note: {note}" for note in summary.notes),
    ]
    for asked in trial.asked:
        queries = asked.answer.ranking.residual_queries if asked.answer.ranking else ()
        lines += [
            f"{asked.question.key}: R@5 {asked.recall_at_5:.2f}, F1 {asked.f1:.2f}, {asked.seconds:.0f} s: "
            f"{asked.answer.text!r} (wanted {asked.question.answers[0]!r}), {len(queries)} residual queries",
            *(f"  degraded: {reason}" for reason in asked.answer.degraded),
        ]
    lines += [
        f"with a second round and a judge: {len(trial.judged.residual_queries)} residual queries, "
        f"final set {', '.join(trial.judged.judged) or 'none'}",
        *(f"  degraded: {reason}" for reason in trial.judged.degraded),
    ]
    lines.append(f"mean R@5 {trial.recall_at_5:.3f} over {len(trial.asked)} questions")
    lines += [
        f"{row.group}: {row.calls} calls ({row.cached} from the ledger, {row.failed} failed), "
        f"{row.tokens_in} + {row.tokens_out} tokens, {row.latency_s:.0f} s"
        for row in trial.costs
    ]
    return "\n".join(lines)
