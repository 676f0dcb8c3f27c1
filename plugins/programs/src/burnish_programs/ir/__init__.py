"""Programs as data: values that say what runs, checked when they are made, read and written as JSON and TOML.

    from burnish_programs import ir

    qa = ir.program(
        "question -> answer",
        ir.Hole.of(search, "question -> context: list[str]"),
        ir.Predict("draft", "question, context -> draft"),
        ir.Retry(ir.Predict("refine", "question, draft -> answer")),
    )
    short = qa.overlay({"refine.instruction": "Answer in one word."})
    ir.save(qa.bake(short, "by hand"), "qa.toml")

Everything here is immutable: one program serves every run, whatever overlay it runs under.
"""

from burnish_programs.ir._build import program as program
from burnish_programs.ir._engine import ProgramEvalEngine as ProgramEvalEngine
from burnish_programs.ir._env import RuntimeEnv as RuntimeEnv
from burnish_programs.ir._errors import BaseMismatchError as BaseMismatchError
from burnish_programs.ir._errors import DemoFieldError as DemoFieldError
from burnish_programs.ir._errors import KindMismatchError as KindMismatchError
from burnish_programs.ir._errors import ProgramError as ProgramError
from burnish_programs.ir._errors import UnknownPathError as UnknownPathError
from burnish_programs.ir._faults import HoleError as HoleError
from burnish_programs.ir._faults import InputError as InputError
from burnish_programs.ir._faults import LoadError as LoadError
from burnish_programs.ir._faults import RouteError as RouteError
from burnish_programs.ir._faults import RunBudgetError as RunBudgetError
from burnish_programs.ir._faults import RunError as RunError
from burnish_programs.ir._form import load as load
from burnish_programs.ir._form import save as save
from burnish_programs.ir._leaves import LeafOutcome as LeafOutcome
from burnish_programs.ir._meter import Budget as Budget
from burnish_programs.ir._meter import BudgetMeter as BudgetMeter
from burnish_programs.ir._nodes import Carry as Carry
from burnish_programs.ir._nodes import ForkJoin as ForkJoin
from burnish_programs.ir._nodes import Hole as Hole
from burnish_programs.ir._nodes import Input as Input
from burnish_programs.ir._nodes import Lit as Lit
from burnish_programs.ir._nodes import Loop as Loop
from burnish_programs.ir._nodes import Node as Node
from burnish_programs.ir._nodes import Out as Out
from burnish_programs.ir._nodes import Port as Port
from burnish_programs.ir._nodes import Predict as Predict
from burnish_programs.ir._nodes import Refine as Refine
from burnish_programs.ir._nodes import Retry as Retry
from burnish_programs.ir._nodes import Route as Route
from burnish_programs.ir._nodes import Seq as Seq
from burnish_programs.ir._nodes import SignatureDef as SignatureDef
from burnish_programs.ir._overlay import Overlay as Overlay
from burnish_programs.ir._program import Program as Program
from burnish_programs.ir._run import Interpreter as Interpreter
from burnish_programs.ir._target import InterpreterTarget as InterpreterTarget
from burnish_programs.ir._values import Code as Code
from burnish_programs.ir._values import DemoRow as DemoRow
from burnish_programs.ir._values import Demos as Demos
from burnish_programs.ir._values import Instruction as Instruction
from burnish_programs.ir._values import ModelRef as ModelRef
from burnish_programs.ir._values import ParamSlot as ParamSlot
from burnish_programs.ir._values import ParamValue as ParamValue
