"""burnish tunes the texts of an LM program (instructions, demos, any prompt) against a metric.

Start with `burnish.optimize`; to evaluate candidates yourself, with `burnish.EvalEngine`. Plugins: `burnish.abc` (the
kinds), `burnish.hookspecs` (the hooks), `burnish.testing` (conformance). Importing this loads no plugin.
"""

from burnish._model.budget import Budget as Budget
from burnish._model.budget import RoleSpend as RoleSpend
from burnish._model.budget import Spend as Spend
from burnish._model.candidate import Candidate as Candidate
from burnish._model.candidate import Demo as Demo
from burnish._model.candidate import Overlay as Overlay
from burnish._model.evals import Eval as Eval
from burnish._model.evals import average_score as average_score
from burnish._model.example import Example as Example
from burnish._model.matrix import ScoreMatrix as ScoreMatrix
from burnish._model.outcome import BudgetExhausted as BudgetExhausted
from burnish._model.outcome import CandidateEval as CandidateEval
from burnish._model.outcome import Complete as Complete
from burnish._model.outcome import Fault as Fault
from burnish._model.outcome import Promoted as Promoted
from burnish._model.outcome import Rejected as Rejected
from burnish._model.outcome import RolloutOutcome as RolloutOutcome
from burnish._model.outcome import RolloutRecord as RolloutRecord
from burnish._model.outcome import RolloutStatus as RolloutStatus
from burnish._model.outcome import Undecided as Undecided
from burnish._model.parameter import FieldInfo as FieldInfo
from burnish._model.parameter import Parameter as Parameter
from burnish._model.parameter import PredictState as PredictState
from burnish._model.pareto import ParetoFrontier as ParetoFrontier
from burnish._model.pareto import ParetoStatistics as ParetoStatistics
from burnish._model.pareto import ParetoView as ParetoView
from burnish._model.report import CandidateEntry as CandidateEntry
from burnish._model.report import Plan as Plan
from burnish._model.report import Report as Report
from burnish._model.trace import Span as Span
from burnish._model.trace import Trace as Trace
from burnish._runtime.capture import capture as capture
from burnish._runtime.capture import span as span
from burnish._runtime.codeprint import code_print as code_print
from burnish._runtime.config import DEFAULT_EVAL_CONCURRENCY as DEFAULT_EVAL_CONCURRENCY
from burnish._runtime.config import EngineConfig as EngineConfig
from burnish._runtime.engine import Engine as Engine
from burnish._runtime.engine import EvalEngine as EvalEngine
from burnish._runtime.evaluation import evaluate_trainset as evaluate_trainset
from burnish._runtime.evaluation import evaluate_trainset_with_concurrency as evaluate_trainset_with_concurrency
from burnish._runtime.evaluation import forward_all as forward_all
from burnish._runtime.invoke import inline as inline
from burnish._runtime.model_calls import as_model as as_model
from burnish._runtime.model_calls import call_model as call_model
from burnish._runtime.model_calls import run_from_sync as run_from_sync
from burnish._runtime.rollout_cache import RolloutCache as RolloutCache
from burnish._runtime.scope import current_injection as current_injection
from burnish._runtime.scope import model_for as model_for
from burnish._runtime.scope import models as models
from burnish._runtime.target import CandidateUndo as CandidateUndo
from burnish._runtime.target import apply_candidate as apply_candidate
from burnish._runtime.target import restore_candidate as restore_candidate
from burnish.abc import Environment as Environment
from burnish.abc import Spec as Spec
from burnish.hookspecs import hookimpl as hookimpl
