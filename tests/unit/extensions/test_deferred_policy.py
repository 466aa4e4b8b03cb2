"""The discounted-Beta policy, against a plain reimplementation that goes turn by turn."""

import itertools
import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.deferred_tools.catalog import DeferredCatalog, catalog_of
from awaken.extensions.deferred_tools.config import DiscountedBeta
from awaken.extensions.deferred_tools.hooks import idle_tools
from awaken.extensions.deferred_tools.policy import (
    Belief,
    belief_after,
    is_worth_deferring,
    prior_belief,
)
from awaken.extensions.deferred_tools.state import (
    LOADED_TOOLS,
    TOOL_USE,
    Called,
    Conversation,
    FirstTurn,
    Mark,
    Shift,
    ToolUsage,
)
from awaken.extensions.deferred_tools.usage_profile import REMEMBERED, Learned, learn_from_run

omegas = st.one_of(st.just(1.0), st.floats(0.05, 1.0))
shares = st.floats(0, 1)
turn_sets = st.sets(st.integers(1, 40))


def plain_belief(p: float, n0: float, called: set[int], turns: int, omega: float) -> Belief:
    """The definition: every turn discounts both parameters and adds one observation."""
    alpha, beta = max(0.01, p * n0), max(0.01, (1 - p) * n0)
    for turn in range(1, turns + 1):
        alpha, beta = alpha * omega, beta * omega
        if turn in called:
            alpha += 1
        else:
            beta += 1
    return Belief(alpha, beta)


@given(shares, st.floats(0.1, 50), turn_sets, st.integers(0, 40), omegas)
def test_the_belief_is_the_one_that_is_reached_turn_by_turn(
    p: float, n0: float, called: set[int], turns: int, omega: float
) -> None:
    seen = {turn for turn in called if turn <= turns}
    expected = plain_belief(p, n0, seen, turns, omega)
    belief = belief_after(prior_belief(p, n0), seen, turns, omega)
    assert belief.alpha == pytest.approx(expected.alpha, rel=1e-9, abs=1e-9)
    assert belief.beta == pytest.approx(expected.beta, rel=1e-6, abs=1e-9)


@given(st.floats(0.001, 100), st.floats(0.001, 100))
def test_the_upper_bound_is_that_of_the_normal_approximation(alpha: float, beta: float) -> None:
    mean = alpha / (alpha + beta)
    variance = mean * (1 - mean) / (alpha + beta + 1)
    expected = min(1.0, mean + 1.282 * math.sqrt(variance))
    assert Belief(alpha, beta).upper_bound == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("saving", "rules", "expected"),
    [
        (201.0, DiscountedBeta(thresh_mult=1), True),
        (199.0, DiscountedBeta(thresh_mult=1), False),
        (201.0, DiscountedBeta(thresh_mult=0.5), False),
        (403.0, DiscountedBeta(thresh_mult=0.5), True),
        (1e9, DiscountedBeta(gamma=0), False),
    ],
)
def test_a_tool_is_deferred_when_its_use_is_surely_below_break_even(
    saving: float, rules: DiscountedBeta, expected: bool
) -> None:
    belief = Belief(1e6, 9e6)  # a tenth of the turns, known well
    assert belief.upper_bound == pytest.approx(0.1, rel=0.002)
    assert is_worth_deferring(belief, saving, rules) is expected


def test_the_constants_are_those_of_the_reference() -> None:
    rules = DiscountedBeta()
    assert (rules.omega, rules.n0, rules.defer_after) == (0.95, 5, 5)
    assert (rules.thresh_mult, rules.gamma) == (0.5, 2000)
    assert prior_belief(0.01, 5) == (0.05, 4.95)
    assert prior_belief(0.0, 5).alpha == prior_belief(1.0, 5).beta == 0.01


AGENT = "a"
TOOLS = ("small", "large")


def catalog(rules: DiscountedBeta) -> DeferredCatalog:
    """Two deferred tools, one of them with a long schema."""
    long = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(60)}}
    tools = [ToolDescriptor(id="small"), ToolDescriptor(id="large", parameters=long)]
    spec = AgentSpec(
        id=AGENT,
        model_id="m",
        sections={"deferred_tools": {"enabled": True, "disc_beta": _section(rules)}},
    )
    search = ToolDescriptor(id="ToolSearch")
    return catalog_of(spec, {tool.id: tool for tool in (*tools, search)})


def _section(rules: DiscountedBeta) -> dict[str, float]:
    return {name: getattr(rules, name) for name in rules.__struct_fields__}


class PlainTool:
    """One tool as the definition has it."""

    def __init__(self, prior: float, rules: DiscountedBeta, saving: float) -> None:
        self.belief = plain_belief(prior, rules.n0, set(), 0, 1)
        self.rules, self.saving = rules, saving
        self.is_loaded, self.latest = False, 0

    def begin_turn(self, turn: int) -> None:
        rules = self.rules
        if self.is_loaded and turn - 1 - self.latest >= rules.defer_after:
            worth = self.saving / rules.gamma * rules.thresh_mult
            if self.belief.upper_bound < worth:
                self.is_loaded, self.latest = False, turn

    def end_turn(self, turn: int, event: str) -> None:
        if event in ("searched", "called"):
            self.is_loaded, self.latest = True, turn
        alpha, beta = (it * self.rules.omega for it in self.belief)
        hit = event == "called"
        self.belief = Belief(alpha + hit, beta + (not hit))


events = st.sampled_from(["nothing", "nothing", "nothing", "searched", "called"])
turn_events = st.lists(st.tuples(events, events), max_size=40)


@sampled
@settings(max_examples=choose_size(30, 150))
@given(turn_events, shares, st.integers(1, 6), st.sampled_from([0.5, 1.0, 4.0]))
def test_what_is_loaded_is_what_a_turn_by_turn_simulation_has_loaded(
    played: list[tuple[str, str]], prior: float, defer_after: int, thresh_mult: float
) -> None:
    rules = DiscountedBeta(defer_after=defer_after, thresh_mult=thresh_mult)
    made = catalog(rules)
    plain = {name: PlainTool(prior, rules, made.tools[name].saving) for name in TOOLS}
    loaded: Mapping[str, Conversation] = {}
    use = TOOL_USE.apply_update(
        {}, FirstTurn(agent_id=AGENT, since=0, priors=dict.fromkeys(TOOLS, prior))
    )
    for turn, happened in enumerate(played, start=1):
        loaded = LOADED_TOOLS.apply_update(loaded, Shift(agent_id=AGENT, turn=turn))
        idle = idle_tools(made, loaded[AGENT], use[AGENT])
        loaded = LOADED_TOOLS.apply_update(loaded, Shift(agent_id=AGENT, turn=turn, defer=idle))
        for tool in plain.values():
            tool.begin_turn(turn)
        assert set(loaded[AGENT].active_tools) == {n for n, it in plain.items() if it.is_loaded}
        for name, event in zip(TOOLS, happened, strict=True):
            plain[name].end_turn(turn, event)
            if event != "nothing":
                loaded = LOADED_TOOLS.apply_update(
                    loaded, Shift(agent_id=AGENT, turn=turn, load=(name,))
                )
            if event == "called":
                use = TOOL_USE.apply_update(use, Called(agent_id=AGENT, tool_id=name, turn=turn))


def test_a_run_counts_its_turns_from_its_own_beginning() -> None:
    """The thread has 100 turns; of this run one is over, so that the prior is hardly touched."""
    made = catalog(DiscountedBeta(defer_after=1))
    late = Conversation(turn=102, marks={"large": Mark(90, True)})
    assert idle_tools(made, late, ToolUsage(since=100, priors={"large": 0.3})) == ()
    assert idle_tools(made, late, ToolUsage(since=0, priors={"large": 0.3})) == ("large",)


def test_a_tool_that_is_gone_or_not_idle_enough_is_left_alone() -> None:
    made = catalog(DiscountedBeta())
    use = ToolUsage(since=0)
    gone = Conversation(turn=50, marks={"gone": Mark(1, True)})
    assert idle_tools(made, gone, use) == ()
    assert idle_tools(made, Conversation(turn=10, marks={"large": Mark(5, True)}), use) == ()
    assert idle_tools(made, Conversation(turn=11, marks={"large": Mark(5, True)}), use) == (
        "large",
    )


names = st.sampled_from("abc")
shifts = st.builds(
    lambda turn, load, defer: Shift(
        agent_id=AGENT, turn=turn, load=tuple(load), defer=tuple(defer)
    ),
    st.integers(1, 3),
    st.sets(names, max_size=2),
    st.sets(names, max_size=2),
)


@given(st.lists(shifts, max_size=4))
def test_shifts_give_the_same_in_any_order_and_loading_wins_in_one_turn(
    batch: list[Shift],
) -> None:
    results = []
    for order in itertools.permutations(batch):
        value: Mapping[str, Conversation] = {}
        for shift in order:
            value = LOADED_TOOLS.apply_update(value, shift)
        results.append(value)
    assert all(it == results[0] for it in results)
    for tool_id in {name for shift in batch for name in (*shift.load, *shift.defer)}:
        last_load = max((it.turn for it in batch if tool_id in it.load), default=0)
        last_defer = max((it.turn for it in batch if tool_id in it.defer), default=0)
        assert (tool_id in results[0][AGENT].active_tools) is (last_load >= last_defer)


def test_calls_are_turns_however_often_a_tool_is_called_in_one() -> None:
    use = TOOL_USE.apply_update({}, FirstTurn(agent_id=AGENT, since=10, priors={"a": 0.5}))
    for turn in (13, 11, 13):
        use = TOOL_USE.apply_update(use, Called(agent_id=AGENT, tool_id="a", turn=turn))
    assert use[AGENT] == ToolUsage(since=10, priors={"a": 0.5}, calls={"a": (1, 3)})
    # What a run began with stays.
    again = TOOL_USE.apply_update(use, FirstTurn(agent_id=AGENT, since=99, priors={}))
    assert again == use


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=30))
def test_what_is_learned_is_the_moving_average_of_the_runs(runs: list[tuple[int, int]]) -> None:
    learned, average = Learned(), 0.0
    for n, (hits, more) in enumerate(runs):
        turns = hits + more
        use = ToolUsage(priors=dict(learned.presence), calls={"a": tuple(range(1, hits + 1))})
        learned = learn_from_run(learned, use=use, turns=turns)
        weight = max(0.1, 1 / (n + 1))
        average = (1 - weight) * average + weight * hits / turns
        assert learned.presence["a"] == pytest.approx(average)
        assert learned.runs == n + 1


def test_tools_that_a_run_did_not_call_are_expected_less_and_those_it_did_not_have_are_kept() -> (
    None
):
    before = Learned(runs=20, presence={"had": 0.5, "missing": 0.5})
    after = learn_from_run(before, use=ToolUsage(priors={"had": 0.5}), turns=4)
    assert after.presence == {"had": 0.45, "missing": 0.5}


def test_of_very_many_tools_the_most_called_are_remembered() -> None:
    many = {f"t{i:05}": i / 10_000 for i in range(REMEMBERED + 5)}
    after = learn_from_run(
        Learned(runs=3, presence=many), use=ToolUsage(calls={"new": (1,)}), turns=1
    )
    assert len(after.presence) == REMEMBERED
    assert "new" in after.presence
    assert "t00000" not in after.presence
