"""Several samples of each rollout, told as one: a noisy metric or program, and a strategy that need not know."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from burnish._model.evals import Eval
from burnish._model.outcome import BudgetExhausted, CandidateEval, Complete, EvalOutcome, RolloutOutcome, RolloutStatus


def merged(outcome: EvalOutcome, repeats: int) -> EvalOutcome:
    """Give an outcome with one rollout a cell in place of `repeats` that stand in a row; needs are counted in cells.

    Its score is the mean of the samples that were scored. Feedback, trace and output are those of the worst: what went
    wrong is what a strategy can learn from. A cell that a cap left incomplete is not scored at all.
    """
    if isinstance(outcome, Complete):
        return attrs.evolve(outcome, evaluations=_all(outcome.evaluations, repeats))
    done = outcome.partial
    partial = None if done is None else _all([done] if isinstance(done, CandidateEval) else done, repeats)
    assert isinstance(outcome, BudgetExhausted)
    return attrs.evolve(outcome, needed=math.ceil(outcome.needed / repeats), partial=partial)


def _all(evaluations: Sequence[CandidateEval], repeats: int) -> tuple[CandidateEval, ...]:
    return tuple(
        CandidateEval(
            candidate=evaluation.candidate,
            rollouts=tuple(
                _cell(evaluation.rollouts[at : at + repeats]) for at in range(0, len(evaluation.rollouts), repeats)
            ),
        )
        for evaluation in evaluations
    )


def _cell(samples: Sequence[RolloutOutcome]) -> RolloutOutcome:
    cut = next((one for one in samples if one.status is RolloutStatus.REJECTED), None)
    scored = [(one.eval.score, n, one, one.eval) for n, one in enumerate(samples) if one.eval is not None]
    if cut is not None or not scored:
        return attrs.evolve(cut or samples[0], eval=None)
    _, _, worst, judged = min(scored, key=lambda entry: entry[:2])
    objectives = {
        name: math.fsum(values) / len(values)
        for name in judged.objectives
        if (values := [e.objectives[name] for _, _, _, e in scored if name in e.objectives])
    }
    mean = math.fsum(score for score, *_ in scored) / len(scored)
    told = Eval(mean, judged.feedback, objectives)
    return attrs.evolve(worst, eval=told, cached=all(one.cached for one in samples))
