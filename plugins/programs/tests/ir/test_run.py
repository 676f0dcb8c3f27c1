"""Running a program: what each node kind does, and whose fault what is."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

import burnish
from burnish import errors
from burnish.testing import ScriptedModel, replay
from burnish_programs import Module, Predict, models
from burnish_programs.ir._env import RuntimeEnv
from burnish_programs.ir._errors import BaseMismatchError
from burnish_programs.ir._faults import HoleError, InputError, LoadError, RouteError, RunBudgetError
from burnish_programs.ir._meter import Budget, BudgetMeter
from burnish_programs.ir._nodes import ForkJoin, Hole, Input, Lit, Node, Out, Retry, Route, Seq
from burnish_programs.ir._program import Program
from burnish_programs.ir._run import Interpreter
from burnish_programs.ir._steps import Loading, Run
from burnish_programs.ir._values import Code, DemoRow, Demos, Instruction, ModelRef

from ._kit import answerer, ask, draft_and_refine, program, system


async def traced(interpreter: Interpreter, input: dict[str, Any], *more: Any) -> tuple[Any, burnish.Trace]:
    """Run under capture; gives output and trace."""
    with burnish.capture() as captured:
        output = await interpreter.run(input, *more)
    return output, captured.trace


# --- sequences and inputs --------------------------------------------------------------------------------------


async def test_the_second_leaf_reads_the_first() -> None:
    """Scenario 63: a sequence leaves 2 spans, and the second leaf got what the first wrote."""
    model = ScriptedModel(["draft: four", "answer: 4"])
    with models(task=model):
        output, trace = await traced(Interpreter(draft_and_refine()), {"question": "2+2?"})
    assert {"answer": "4"} == output
    assert [("drafter", 0), ("refiner", 0)] == [(span.component, span.seq) for span in trace.spans]
    assert {"question": "2+2?", "draft": "four"} == trace.spans[1].inputs
    assert "question: 2+2?\ndraft: four" == model.requests[1].messages[-1].content


async def test_it_renders_what_a_module_renders() -> None:
    """The program lane adds no renderer: a leaf's request is that of the native predictor, to the hash."""

    class Native(Module):
        def __init__(self) -> None:
            self.drafter = Predict("question -> draft", instruction="Draft.")
            self.refiner = Predict("question, draft -> answer")

        async def forward(self, *, question: str) -> Any:
            return await self.refiner(question=question, draft=(await self.drafter(question=question)).draft)

    model = ScriptedModel(["draft: four", "answer: 4"] * 2)
    with models(task=model):
        _, ours = await traced(Interpreter(draft_and_refine()), {"question": "2+2?"})
        with burnish.capture() as native:
            await Native()(question="2+2?")
    assert [s.request_hash for s in native.trace.spans] == [s.request_hash for s in ours.spans]
    assert native.trace.prefixes == ours.prefixes


@pytest.mark.parametrize(
    ("given", "field"),
    [({}, "question"), ({"question": "?", "more": 1}, "more"), ({"question": 3}, "question")],
    ids=["missing", "unknown", "mistyped"],
)
async def test_an_input_that_does_not_fit_is_refused_before_any_call(given: dict[str, Any], field: str) -> None:
    """Scenario 64: a missing input is refused, and no model was called; so is an unknown or mistyped one."""
    leaf = ask("answer", "question: str, hint: str | None -> answer", question="$.question", hint="$.hint")
    model = ScriptedModel([])
    made = program("question: str, hint: str | None -> answer", leaf, out={"answer": "answer.answer"})
    with models(task=model), pytest.raises(InputError, match=f"`{field}`") as caught:
        await Interpreter(made).run(given)
    assert (field, 0) == (caught.value.field, model.calls)


async def test_an_optional_input_may_stay_away() -> None:
    """What is optional and missing is left out of the prompt; a constant goes in as it is."""
    leaf = ask("answer", "question, hint: str | None, style -> answer", question="$.question", hint="$.hint")
    leaf = type(leaf)(name=leaf.name, sig=leaf.sig, bindings={**leaf.bindings, "style": Lit("short")})
    model = ScriptedModel(["4"])
    made = program("question, hint: str | None -> answer", leaf, out={"answer": "answer.answer"})
    with models(task=model):
        assert {"answer": "4"} == await Interpreter(made).run({"question": "2+2?"})
    assert "question: 2+2?\nstyle: short" == model.requests[0].messages[-1].content


# --- side by side ----------------------------------------------------------------------------------------------


def forked(*names: str) -> Program:
    """Branches that answer the same question."""
    branches = [ask(name, f"question -> {name}", question="$.question", instruction=name) for name in names]
    out = {name: f"{name}.{name}" for name in names}
    return program(f"question -> {', '.join(names)}", ForkJoin(branches=branches), out=out)


async def test_a_fork_gives_both_branches() -> None:
    """Scenario 65: both branches ran, at once, and their outputs are there."""
    asked = {"left": trio.Event(), "right": trio.Event()}

    async def model(request: burnish.abc.LMRequest) -> str:
        asked[system(request)].set()
        with trio.fail_after(1):
            for event in asked.values():
                await event.wait()
        return f"{system(request)}!"

    with models(task=model):
        output, trace = await traced(Interpreter(forked("left", "right")), {"question": "?"})
    assert {"left": "left!", "right": "right!"} == output
    assert {"left": None, "right": None} == {span.component: span.parent for span in trace.spans}


async def test_the_first_error_of_a_fork_cancels_the_others(autojump_clock: trio.testing.MockClock) -> None:
    """A failing branch ends its siblings, whose spans read as cancelled; the error comes bare, not in a group."""

    async def model(request: burnish.abc.LMRequest) -> str:
        if system(request) == "left":
            raise errors.ModelRefusedError("no")
        await trio.sleep(60)
        return "late"

    with models(task=model), burnish.capture() as captured, pytest.raises(errors.ModelRefusedError, match="no"):
        await Interpreter(forked("left", "right")).run({"question": "?"})
    spans = {span.component: span.error and span.error.kind for span in captured.trace.spans}
    assert {"left": "lm", "right": "cancelled"} == spans
    assert 60 > trio.current_time()


async def test_outcomes_stand_in_declared_order(autojump_clock: trio.testing.MockClock) -> None:
    """`run_collecting` tells each successful call, branches as they are declared, whichever ended first."""

    async def model(request: burnish.abc.LMRequest) -> burnish.abc.LMResponse:
        await trio.sleep({"slow": 2, "quick": 1}[system(request)])
        return burnish.abc.LMResponse(text=f"{system(request)}!", usage=burnish.abc.Usage(output_tokens=3))

    with models(task=model):
        output, told = await Interpreter(forked("slow", "quick")).run_collecting({"question": "?"})
    assert [("slow", "slow!", 3, None), ("quick", "quick!", 3, None)] == [
        (one.name, one.raw_response, one.usage.total, one.span_id) for one in told
    ]
    assert {"slow": "slow!"} == told[0].outputs
    assert {"slow": "slow!", "quick": "quick!"} == output
    assert told[0].model == told[1].model


# --- routes ----------------------------------------------------------------------------------------------------


def routed(default: Node | None) -> Program:
    """A route by an input of any text."""
    arms = {kind: ask(kind, "question -> answer", question="$.question", instruction=kind) for kind in ("sum", "word")}
    route = Route(name="by_kind", on=Input("kind"), arms=arms, default=default)
    sig = "question, kind: Literal['sum', 'word'] -> answer" if default is None else "question, kind -> answer"
    return program(sig, route, out={"answer": "by_kind.answer"})


async def test_a_route_takes_the_arm_of_its_value_or_the_default() -> None:
    """The value picks the arm; what has none takes the default; only the arm that was taken runs."""
    other = Seq(
        body=[ask("other", "question -> reply", question="$.question", instruction="other")],
        out={"answer": Out("other", "reply")},
    )
    interpreter = Interpreter(routed(other))
    with models(task=system):
        for kind, wanted in {"sum": "sum", "word": "word", "riddle": "other"}.items():
            output, trace = await traced(interpreter, {"question": "?", "kind": kind})
            assert ({"answer": wanted}, [wanted]) == (output, [span.component for span in trace.spans])


async def test_a_value_without_an_arm_is_an_error() -> None:
    """Without a default a value that a hole or a lax row made up ends the run, naming the route and its arms."""
    leaf = ask("classify", "question -> kind: Literal['sum', 'word']", question="$.question")
    arms = {kind: ask(kind, "question -> answer", question="$.question") for kind in ("sum", "word")}
    route = Route(name="by_kind", on=Out("classify", "kind"), arms=arms)
    interpreter = Interpreter(program("question -> answer", leaf, route, out={"answer": "by_kind.answer"}))
    step, made_up = interpreter.program.root.body[1], {"kind": "riddle"}
    under = burnish.Injection(burnish.Candidate())
    state = Run(inputs={"question": "?"}, injection=under, meter=BudgetMeter(Budget()), outputs={"classify": made_up})
    with pytest.raises(RouteError, match="`by_kind` has no arm for 'riddle' and no default; its arms are `sum`, `wo"):
        await Loading(bound=interpreter.bound).step(step)(state)


# --- retries ---------------------------------------------------------------------------------------------------


def retried(child: Node | None = None, **options: Any) -> Program:
    """A leaf with a number as its output, in a retry."""
    leaf = child or ask("count", "question -> n: int", question="$.question")
    return program("question -> n: int", Retry(child=leaf, **options), out={"n": "count.n"})


async def test_a_retry_shows_what_could_not_be_parsed() -> None:
    """Scenario 66: 2 spans, the first with a parse error; the second request says "could not be parsed"."""
    model = ScriptedModel(["n: many", "n: 4"])
    with models(task=model):
        output, trace = await traced(Interpreter(retried()), {"question": "2+2?"})
    assert {"n": 4} == output
    assert [("count", 0, "parse"), ("count", 1, None)] == [
        (span.component, span.seq, span.error and span.error.kind) for span in trace.spans
    ]
    first, second = model.requests
    assert [*first.messages] == [*second.messages[:-1]]
    assert "user" == second.messages[-1].role
    assert "could not be parsed" in second.messages[-1].content
    assert trace.spans[0].request_hash != trace.spans[1].request_hash


async def test_a_retry_without_feedback_asks_the_same_again() -> None:
    """Without feedback the second request is the first one."""
    model = ScriptedModel(["n: many", "n: 4"])
    with models(task=model):
        assert {"n": 4} == await Interpreter(retried(feedback=False)).run({"question": "2+2?"})
    assert model.requests[0] == model.requests[1]


async def test_a_retry_gives_up_with_the_last_error() -> None:
    """After the last attempt its error is raised; the hint of one run is not seen by the next."""
    model = ScriptedModel(["n: a", "n: b", "n: c", "n: 1"])
    interpreter = Interpreter(retried(max_attempts=3))
    with models(task=model):
        with pytest.raises(errors.ParseError) as caught:
            await interpreter.run({"question": "?"})
        assert ("n: c", 3) == (caught.value.raw, model.calls)
        await interpreter.run({"question": "?"})
    assert [2, 3, 3, 2] == [len(request.messages) for request in model.requests]


async def test_the_hint_goes_to_the_leaf_that_failed() -> None:
    """Of a sequence that is run again, only the leaf whose reply could not be read is told so."""
    first = ask("think", "question -> thought", question="$.question", instruction="think")
    body = Seq(name="both", body=[first, ask("count", "thought -> n: int", thought="think.thought")])
    body = Seq(name="both", body=body.body, out={"n": Out("count", "n")})
    made = program("question -> n: int", Retry(child=body), out={"n": "both.n"})
    model = ScriptedModel(["t1", "n: many", "t2", "n: 4"])
    with models(task=model):
        assert {"n": 4} == await Interpreter(made).run({"question": "?"})
    assert [2, 2, 2, 3] == [len(request.messages) for request in model.requests]


async def test_a_retry_waits(autojump_clock: trio.testing.MockClock) -> None:
    """`backoff_ms` passes before each further attempt."""
    began = trio.current_time()
    with models(task=ScriptedModel(["n: x", "n: y", "n: 3"])):
        await Interpreter(retried(max_attempts=3, backoff_ms=500)).run({"question": "?"})
    assert 1.0 == pytest.approx(trio.current_time() - began)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (errors.ModelMalformedError("odd"), 2),
        (errors.ModelAuthError("no key"), 1),
        (errors.ContextLengthError("long"), 1),
        (errors.ModelRefusedError("no"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_only_what_may_pass_is_tried_again(error: Exception, calls: int) -> None:
    """A model's error is tried again but where the next call must fail too; after it the hint says nothing."""
    limits = burnish.abc.ModelLimits(key="test", retries=0, timeout=None)
    model = ScriptedModel([error, "n: 4"], limits=limits)
    with models(task=model):
        if calls == 2:
            assert {"n": 4} == await Interpreter(retried()).run({"question": "?"})
            assert model.requests[0] == model.requests[1]
        else:
            with pytest.raises(type(error)):
                await Interpreter(retried()).run({"question": "?"})
    assert calls == model.calls


# --- candidates ------------------------------------------------------------------------------------------------


async def test_overlays_do_not_stick() -> None:
    """Scenario 69: two overlays, then none, on one interpreter: each prompt shows its own text, the default stays."""
    made, model = answerer(), ScriptedModel(system)
    interpreter, overlay = Interpreter(made), made.overlay()
    first = overlay.set(made, "answer.instruction", Instruction("First."))
    second = overlay.set(made, "answer.instruction", Instruction("Second."))
    with models(task=model):
        outputs = [await interpreter.run({"question": "?"}, one) for one in (first, second, None)]
    assert ["First.", "Second.", "Answer."] == [system(request) for request in model.requests]
    assert ["First.", "Second.", "Answer."] == [output.answer for output in outputs]
    assert Instruction("Answer.") == made.slots["answer.instruction"].default


async def test_an_overlay_of_another_program_is_refused_first() -> None:
    """Scenario 73: the base is checked before the input, and before any call."""
    model = ScriptedModel([])
    with models(task=model), pytest.raises(BaseMismatchError, match="overlay minted against program"):
        await Interpreter(answerer()).run({}, draft_and_refine().overlay())
    assert 0 == model.calls


async def test_baked_in_or_laid_over_is_one() -> None:
    """Scenario 72: what a program runs with an overlay, its baked copy runs without: equal requests, span for span."""
    made = draft_and_refine("small", models=["small", "large"])
    env = RuntimeEnv().bind_model("small", ScriptedModel(lambda r: "draft: d\nanswer: a", name="small"))
    env.bind_model("large", ScriptedModel(lambda r: "draft: d\nanswer: a", name="large"))
    demo = DemoRow({"question": "1+1?", "draft": "two"}, {"answer": "2"})
    overlay = (
        made.overlay()
        .set(made, "drafter.instruction", Instruction("Draft well."))
        .set(made, "refiner.demos", Demos([demo]))
        .set(made, "refiner.model", ModelRef("large"))
    )
    _, plain = await traced(Interpreter(made, env), {"question": "2+2?"})
    _, over = await traced(Interpreter(made, env), {"question": "2+2?"}, overlay)
    _, baked = await traced(Interpreter(made.bake(overlay), env), {"question": "2+2?"})
    hashes = [[span.request_hash for span in trace.spans] for trace in (plain, over, baked)]
    assert hashes[1] == hashes[2]
    assert [True, True] == [a != b for a, b in zip(hashes[0], hashes[1], strict=True)]
    assert ["small", "large"] == [over.model_of(span)["model"] for span in over.spans]  # type: ignore[index]
    with pytest.raises(BaseMismatchError):
        await Interpreter(made.bake(overlay), env).run({"question": "?"}, overlay)


async def test_a_run_inside_a_rollout_reads_its_own_overlay() -> None:
    """An interpreter that another program calls does not take that program's candidate for its own."""
    candidate = burnish.Candidate().with_instruction("answer", "Another's.")
    with models(task=system), burnish.injected(burnish.Injection(candidate)):
        assert {"answer": "Answer."} == await Interpreter(answerer()).run({"question": "?"})


# --- budgets ---------------------------------------------------------------------------------------------------


async def test_the_budget_of_a_run_ends_it_at_the_leaf() -> None:
    """Scenario 70: a run with a budget of 1 call ends at the second of 2 leaves; the model was asked once."""
    model = ScriptedModel(["draft: d", "answer: a"])
    interpreter = Interpreter(draft_and_refine())
    with models(task=model):
        with pytest.raises(RunBudgetError) as caught:
            await interpreter.run({"question": "?"}, budget=Budget(max_lm_calls=1))
        assert ("refiner", "max_lm_calls", 1) == (caught.value.at, caught.value.cap, model.calls)


async def test_a_budget_is_each_runs_own() -> None:
    """Two runs under one budget may each make its calls; a meter is shared by what runs under it."""
    with models(task=ScriptedModel(lambda request: "draft: d\nanswer: a")):
        interpreter, budget = Interpreter(draft_and_refine()), Budget(max_lm_calls=2)
        for _ in range(2):
            await interpreter.run({"question": "?"}, budget=budget)
        meter = BudgetMeter(Budget(max_lm_calls=3))
        await interpreter.run({"question": "?"}, budget=meter)
        with pytest.raises(RunBudgetError):
            await interpreter.run({"question": "?"}, budget=meter)
    assert 3 == meter.lm_calls
    assert 0 < meter.tokens


async def test_no_retry_after_a_refused_call() -> None:
    """A retry takes a call for each attempt, and does not try again what the budget refused."""
    model = ScriptedModel(["n: many", "n: 4"])
    with models(task=model), pytest.raises(RunBudgetError):
        await Interpreter(retried(max_attempts=5)).run({"question": "?"}, budget=Budget(max_lm_calls=1))
    assert 1 == model.calls


async def test_a_replayed_call_takes_no_budget() -> None:
    """A call that a recorded trace answers is neither reserved nor booked; a live one after it is."""
    model = ScriptedModel(lambda request: "draft: d\nanswer: a")
    interpreter = Interpreter(draft_and_refine())
    with models(task=model):
        output, trace = await traced(interpreter, {"question": "?"})
        meter = BudgetMeter(Budget(max_lm_calls=0, max_tokens=0))
        with replay(trace) as replaying:
            assert output == await interpreter.run({"question": "?"}, budget=meter)
    assert (2, 2, 0, 0) == (replaying.report.served, model.calls, meter.lm_calls, meter.tokens)


# --- what the environment gives --------------------------------------------------------------------------------


def looked_up(**hole: Any) -> Program:
    """A program with a hole before its leaf."""
    bindings = {"question": Input("question")}
    search = Hole(name="search", sig="question -> context", impl="host:search", bindings=bindings, **hole)
    leaf = ask("answer", "context -> answer", context="search.context")
    return program("question -> answer", search, leaf, out={"answer": "answer.answer"}, caps=hole.get("caps", ()))


def search(question: str) -> str:
    """Find something."""
    return f"about {question}"


@burnish.exposed
def exposed_search(question: str) -> dict[str, str]:
    """Find something, for whoever names it."""
    return {"context": f"found {question}"}


def test_what_is_missing_is_named_when_a_program_is_loaded() -> None:
    """Scenario 71: caps that were not granted are listed; a model or a hole that is not bound is named."""
    made = looked_up(caps=("net", "disk"))
    env = RuntimeEnv().grant("disk")
    with pytest.raises(LoadError, match="names `net`, which was not granted") as caught:
        Interpreter(made, env)
    assert ("net",) == caught.value.missing
    with pytest.raises(LoadError, match="names `net`, `disk`, which was not granted"):
        Interpreter(made)
    with pytest.raises(LoadError, match="`search`, which has no function"):
        Interpreter(made, env.grant("net"))
    Interpreter(made, env.bind_hole("search", search))
    with pytest.raises(LoadError, match="`small`, `large`, which has no model") as caught:
        Interpreter(answerer("small", models=["small", "large"]))
    assert ("small", "large") == caught.value.missing


@pytest.mark.parametrize("name", ["search", "host:search"])
async def test_a_hole_runs_the_function_that_is_bound(name: str) -> None:
    """A hole is bound by its name or by what it names; it leaves a span; what it gives goes on."""
    model = ScriptedModel(lambda request: request.messages[-1].content.upper())
    with models(task=model):
        output, trace = await traced(Interpreter(looked_up(), RuntimeEnv().bind_hole(name, search)), {"question": "q"})
    assert {"answer": "CONTEXT: ABOUT Q"} == output
    assert [("search", {"context": "about q"}), ("answer", {"answer": "CONTEXT: ABOUT Q"})] == [
        (span.component, span.output) for span in trace.spans
    ]


async def test_a_hole_may_be_async_or_inline() -> None:
    """Async functions are awaited, inline ones called on the loop."""

    async def slow(question: str) -> str:
        await trio.lowlevel.checkpoint()
        return "slow"

    @burnish.inline
    def quick(question: str) -> dict[str, str]:
        trio.lowlevel.current_task()
        return {"context": "quick"}

    with models(task=lambda request: request.messages[-1].content):
        for function, wanted in ((slow, "context: slow"), (quick, "context: quick")):
            interpreter = Interpreter(looked_up(), RuntimeEnv().bind_hole("search", function))
            assert {"answer": wanted} == await interpreter.run({"question": "q"})


async def test_a_loaded_program_keeps_what_was_bound() -> None:
    """Binding a name anew is for programs that are loaded later; a baked copy is bound as its origin was."""
    made = answerer("small", models=["small"])
    env = RuntimeEnv().bind_model("small", lambda request: "old")
    interpreter = Interpreter(made, env)
    env.bind_model("small", lambda request: "new")
    copied = interpreter.copy()
    copied.install(burnish.Candidate().with_instruction("answer", "Won."))
    outputs = [await one.run({"question": "?"}) for one in (interpreter, copied, Interpreter(made, env))]
    assert ["old", "old", "new"] == [output.answer for output in outputs]


def test_code_is_imported_only_where_the_host_says_so() -> None:
    """Reading a program imports nothing; an environment with `imports` takes marked functions, and no others."""

    def naming(attribute: str) -> Program:
        bindings, impl = {"question": Input("question")}, f"{__name__}:{attribute}"
        hole = Hole(name="search", sig="question -> context", impl=impl, bindings=bindings)
        return program("question -> context", hole, out={"context": "search.context"})

    with pytest.raises(LoadError, match="`search`, which has no function"):
        Interpreter(naming("exposed_search"))
    imports = RuntimeEnv(imports=True)
    assert exposed_search is Interpreter(naming("exposed_search"), imports).bound.holes["search"]
    with pytest.raises(LoadError, match=r"no function marked with `@burnish\.exposed`"):
        Interpreter(naming("search"), imports)


async def test_a_hole_is_the_code_that_it_was_made_for() -> None:
    """A hole with a hash takes the function of that hash, and refuses another; so does an overlay with one."""
    right = burnish.code_print(search).fingerprint
    env = RuntimeEnv().bind_hole("search", search)
    Interpreter(looked_up(code=Code(right)), env)
    with pytest.raises(LoadError, match=f"the function of the hole `search` is {right}, and abc is asked for"):
        Interpreter(looked_up(code=Code("abc")), env)
    made = looked_up()
    with pytest.raises(LoadError, match="abc is asked for"):
        await Interpreter(made, env).run({"question": "q"}, made.overlay().set(made, "search.code", Code("abc")))


async def test_a_hole_that_fails_says_so_and_is_tried_again() -> None:
    """What a function raises or gives wrongly is the hole's error, which a retry intercepts; the cause is kept."""
    answers: list[Any] = [OSError("gone"), 3.5, {"n": 4}]

    async def count(question: str) -> Any:
        value = answers.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    hole = Hole(name="count", sig="question -> n: int", impl="host:count", bindings={"question": Input("question")})
    interpreter = Interpreter(retried(hole, max_attempts=3), RuntimeEnv().bind_hole("count", count))
    assert {"n": 4} == await interpreter.run({"question": "?"})
    answers.extend([OSError("gone"), {"m": 1}, "many"])
    with pytest.raises(HoleError, match="the function of `count` gave another type: expected a whole") as caught:
        await interpreter.run({"question": "?"})
    assert "count" == caught.value.at


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), {3: "x"}], ids=["object", "set", "nan", "key"])
async def test_what_a_hole_gives_is_data(value: Any) -> None:
    """What has no JSON form is the hole's error, which names it, and no wrong use of burnish that ends the run."""
    hole = Hole(name="find", sig="question -> found", impl="host:find", bindings={"question": Input("question")})
    made = program("question -> found", hole, out={"found": "find.found"})
    interpreter = Interpreter(made, RuntimeEnv().bind_hole("find", lambda question: value))
    with pytest.raises(HoleError, match=r"function of `find` gave what has no JSON form: find\.found") as caught:
        await interpreter.run({"question": "?"})
    assert "find" == caught.value.at
    assert not isinstance(caught.value, errors.UsageError)


async def test_a_predictor_inside_a_hole_is_no_leaf_of_the_program() -> None:
    """A native predictor that a hole calls reads no candidate, even under a leaf's name; its span has a parent."""
    native = Predict("question -> context", instruction="Own.", name="answer")

    async def ask_native(question: str) -> Any:
        return (await native(question=question)).context

    made = looked_up()
    overlay = made.overlay().set(made, "answer.instruction", Instruction("Laid over."))
    interpreter = Interpreter(made, RuntimeEnv().bind_hole("search", ask_native))
    with models(task=system):
        output, trace = await traced(interpreter, {"question": "q"}, overlay)
    assert {"answer": "Laid over."} == output
    assert {"context": "Own."} == trace.spans[1].output
    assert [None, 0, None] == [span.parent for span in trace.spans]


async def test_a_trace_names_the_parameters_of_each_component() -> None:
    """Scenario 60: a leaf has instruction, demos and model, a hole its code; a component of nobody's has None."""
    made = looked_up()
    made = program("question -> answer", *made.nodes, out={"answer": "answer.answer"}, models=["small"])
    env = RuntimeEnv().bind_hole("search", search).bind_model("small", lambda request: "a")
    with burnish.capture() as captured:
        await Interpreter(made, env).run({"question": "q"})
        with burnish.span("stranger", {}):
            pass
    assert captured.trace.param_ids is None
    attached = captured.trace.attach_program(made)
    wanted = {
        "search": ("search.code",),
        "answer": ("answer.instruction", "answer.demos", "answer.model"),
        "stranger": None,
    }
    assert wanted == attached.param_ids
    assert captured.trace.meta == attached.meta
