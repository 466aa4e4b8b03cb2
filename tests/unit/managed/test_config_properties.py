"""Whatever two processes change, what is live is the fold of the accepted change sets.

The oracle is one dictionary: the state of every agent by id. It knows nothing of manifests,
objects and heads; it says which changes are refused, and what the accepted ones leave.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.contracts.config.errors import ConfigError
from awaken.contracts.config.publications import OVERRIDE
from awaken.contracts.specs.agents import AgentSpec
from awaken.managed.drafts import PublishDraft
from awaken.managed.files import ApplyOptions
from awaken.managed.publishing import Published
from awaken.stores.memory.store import MemoryStore
from awaken.testing.fakes import SequentialIds

from .config_world import ANN, BEN, CODE_AGENT, ConfigWorld, in_loop, write_agent

BROKEN = "broken"
"""The prompt that does not compile."""
CODE = {
    "greeter": CODE_AGENT,
    "helper": AgentSpec(id="helper", model_id="scripted", system_prompt="Help."),
}
CODE_PROMPTS = {name: it.system_prompt for name, it in CODE.items()}
IDS = ("a", "b", *CODE)


class Held(NamedTuple):
    """What the oracle holds of one agent: its own record, or the overrides of the code's."""

    fields: dict[str, Any]
    is_hidden: bool = False


State = dict[str, Held]


class Edit(NamedTuple):
    """A change of one agent; `how` is put, patch, clear, hide, show or delete."""

    how: str
    id: str
    fields: dict[str, Any]
    expected: int | None = None


class Rollback(NamedTuple):
    """Back to the publication at a place in the history, counted from the newest."""

    back: int


class Draft(NamedTuple):
    """Edits in a draft, and others that become live before the draft is published."""

    edits: list[Edit]
    between: list[Edit]


Step = Edit | Rollback | Draft


def apply_edit(state: State, edit: Edit) -> State | None:
    """What an edit leaves of a state; None if it is refused."""
    held, is_code = state.get(edit.id), edit.id in CODE
    rest = {name: it for name, it in state.items() if name != edit.id}
    before = held or Held({})
    match edit.how:
        case "put" if not is_code:
            after: Held | None = Held(edit.fields)
        case "delete" if held is not None and not is_code:
            after = None
        case "delete" | "hide" if is_code and not (edit.how == "delete" and before.is_hidden):
            after = before._replace(is_hidden=True)
        case "show" if is_code:
            after = before._replace(is_hidden=False)
        case "patch" if is_code:
            after = before._replace(fields=before.fields | edit.fields)
        case "clear" if is_code:
            kept = {name: it for name, it in before.fields.items() if name not in edit.fields}
            after = before._replace(fields=kept)
        case _:
            return None
    if after is None or (is_code and after == Held({})):
        return rest
    return None if after.fields.get("system_prompt") == BROKEN else {**rest, edit.id: after}


class Oracle:
    """The state after each publication, and how often each agent was changed since it began."""

    def __init__(self) -> None:
        self.states: list[State] = [{}]
        self.revisions: dict[str, int] = {}

    @property
    def state(self) -> State:
        return self.states[-1]

    def expect(self, edit: Edit) -> State | None:
        """What a single edit leaves; None if it is refused."""
        actual = self.revisions.get(edit.id, 0)
        is_seen = edit.expected in (None, actual)
        after = apply_edit(self.state, edit)
        return after if is_seen else None

    def accept(self, after: State) -> bool:
        """Take a state as the next publication; False if it changes nothing."""
        changed = [it for it in IDS if self.state.get(it) != after.get(it)]
        for name in changed:
            if name in after:
                self.revisions[name] = self.revisions.get(name, 0) + 1
            else:
                del self.revisions[name]
        if changed:
            self.states.append(after)
        return bool(changed)


async def attempt(work: Awaitable[Published]) -> Published | None:
    """None if it is refused."""
    try:
        return await work
    except ConfigError:
        return None


async def make(world: ConfigWorld, edit: Edit) -> Published:
    """Publish an edit alone."""
    records, write = world.managed.records, write_agent(edit.id, BEN, expected=edit.expected)
    match edit.how:
        case "put":
            return await records.put(write, {"model_id": "scripted", **edit.fields})
        case "delete":
            return await records.delete(write)
        case "patch":
            return await records.patch(write, edit.fields)
        case "clear":
            return await records.patch(write, {}, cleared=edit.fields)
        case _:
            return await records.patch(write, {}, is_hidden=edit.how == "hide")


class Play:
    """Two processes on one store, beside the oracle."""

    def __init__(self) -> None:
        store = MemoryStore()
        self.worlds = (
            ConfigWorld(store, code=CODE),
            # Two processes never make the same id.
            ConfigWorld(store, code=CODE, ids=SequentialIds("other")),
        )
        self.oracle = Oracle()

    async def take(self, place: int, step: Step) -> None:
        world = self.worlds[place]
        match step:
            case Edit():
                await self.edit(world, step)
            case Rollback(back=back):
                no = max(len(self.oracle.states) - 1 - back, 0)
                live = (await world.managed.heads.read_head()).publication or 0
                made = await attempt(world.managed.heads.roll_back(no, ANN, expected_head=live))
                self.judge(made, self.oracle.states[no] if no else None)
            case Draft():
                await self.publish_draft(place, step)
        await self.check()

    async def edit(self, world: ConfigWorld, edit: Edit) -> None:
        expected = self.oracle.expect(edit)
        self.judge(await attempt(make(world, edit)), expected)

    def judge(self, made: Published | None, expected: State | None) -> None:
        """Compare what became of a change with what the oracle says."""
        assert (made is None) == (expected is None), (made, expected)
        if made is not None and expected is not None:
            assert made.is_changed == self.oracle.accept(expected)
            assert made.publication.no == len(self.oracle.states) - 1

    async def publish_draft(self, place: int, step: Draft) -> None:
        drafts, seen = self.worlds[place].managed.drafts, dict(self.oracle.revisions)
        draft_id = (await drafts.create(ANN)).id
        wanted: dict[str, Edit] = {}
        for edit in step.edits:
            is_code = edit.id in CODE
            if is_code == (edit.how in ("put", "delete")) or edit.how == "clear":
                continue
            body = {
                "put": {"model_id": "scripted", **edit.fields}, "patch": edit.fields, "delete": None
            }.get(edit.how, {})  # fmt: skip
            await drafts.put_record(
                draft_id, write_agent(edit.id), body, is_patch=is_code,
                is_hidden=edit.how == "hide",
            )  # fmt: skip
            wanted[edit.id] = edit
        # A draft has the overrides of when it was edited, and says itself what is hidden.
        base = self.oracle.state
        after_base = {it: fold_drafted(base, edit) for it, edit in wanted.items()}
        for edit in step.between:
            await self.edit(self.worlds[1 - place], edit)
        is_seen = all(seen.get(it, 0) == self.oracle.revisions.get(it, 0) for it in wanted)
        after = {**self.oracle.state, **after_base}
        expected: State | None = {name: it for name, it in after.items() if it is not None}
        if not is_seen or any(
            it is not None and it.fields.get("system_prompt") == BROKEN for it in after.values()
        ):
            expected = None
        made = await attempt(drafts.publish(draft_id, PublishDraft(author=ANN)))
        self.judge(made, expected)

    async def race(self, edits: tuple[Edit, Edit], is_same: bool) -> None:
        """Make two edits at once; those that are accepted count, in the order of their numbers."""
        worlds = (self.worlds[0], self.worlds[0 if is_same else 1])
        pairs = zip(worlds, edits, strict=True)
        results = await asyncio.gather(*(attempt(make(world, it)) for world, it in pairs))
        accepted = [
            (made.publication.no, edit)
            for made, edit in zip(results, edits, strict=True)
            if made is not None and made.is_changed
        ]
        for no, edit in sorted(accepted, key=lambda it: it[0]):
            after = self.oracle.expect(edit)
            assert after is not None, edit
            assert self.oracle.accept(after)
            assert no == len(self.oracle.states) - 1
        await self.check()

    async def check(self) -> None:
        """The head, and what a process that follows it has installed, are what the oracle says."""
        for world in self.worlds:
            await world.managed.live.refresh()
            head = await world.managed.heads.read_head()
            assert (head.publication or 0) == len(self.oracle.states) - 1
            assert await read_state(world) == self.oracle.state
            prompts = {name: it.system_prompt for name, it in world.compiler.specs.items()}
            assert prompts == {
                name: it.fields.get("system_prompt", CODE_PROMPTS.get(name, ""))
                for name, it in self.oracle.state.items()
            }
        live = await self.worlds[0].managed.records.read_live()
        entries = live.manifest.get("agents", {})
        assert {name: it.revision for name, it in entries.items()} == self.oracle.revisions

    async def finish(self) -> None:
        """The audit is whole, and what is exported and applied changes nothing."""
        world = self.worlds[0]
        assert (await world.managed.audit.verify()).is_intact
        files = await world.managed.files.export()
        for options in (ApplyOptions(), ApplyOptions(prune=True)):
            plan, published = await world.managed.files.apply(files, options, ANN)
            assert (plan.has_changes, published) == (False, None)
        await self.check()


def fold_drafted(base: State, edit: Edit) -> Held | None:
    """What a draft wants an agent to be."""
    if edit.how == "delete":
        return None
    if edit.how == "put":
        return Held(edit.fields)
    overrides = base.get(edit.id, Held({})).fields
    wanted = Held({**overrides, **(edit.fields if edit.how == "patch" else {})})
    wanted = wanted._replace(is_hidden=edit.how == "hide")
    return None if wanted == Held({}) else wanted


async def read_state(world: ConfigWorld) -> State:
    """What is live, as the oracle holds it."""
    found: State = {}
    for view in await world.managed.records.list_records("agents"):
        if view.meta.source != "code":
            is_patch = view.meta.source == OVERRIDE
            body = view.overrides if is_patch else view.body
            fields = {name: it for name, it in (body or {}).items() if name in FIELDS}
            found[view.meta.id] = Held(fields, view.meta.is_hidden)
    return found


FIELDS = {
    "system_prompt": st.sampled_from(["one", "two", "three", BROKEN]),
    "max_rounds": st.integers(1, 3),
}
edits = st.builds(
    Edit,
    st.sampled_from(["put", "put", "patch", "patch", "clear", "hide", "show", "delete"]),
    st.sampled_from(IDS),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.sampled_from([None, None, None, 0, 1, 2]),
)
free_edits = edits.map(lambda it: it._replace(expected=None))
# Mostly of one agent: changes of different ones hardly meet.
races = st.one_of(
    st.tuples(free_edits, free_edits),
    *(
        st.tuples(of_one, of_one)
        for of_one in (
            free_edits.map(lambda it: it._replace(id="greeter")),
            free_edits.map(lambda it: it._replace(id="greeter", how="patch")),
            free_edits.map(lambda it: it._replace(id="a")),
        )
    ),
)
steps = st.one_of(
    edits,
    edits,
    st.builds(Rollback, st.integers(0, 4)),
    st.builds(Draft, st.lists(free_edits, min_size=1, max_size=4), st.lists(edits, max_size=2)),
)


@sampled
@settings(max_examples=choose_size(40, 3_000), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), steps), max_size=14))
def test_the_head_is_the_fold_of_the_accepted_change_sets(
    given_steps: list[tuple[int, Step]],
) -> None:
    @in_loop
    async def scenario() -> None:
        play = Play()
        for place, step in given_steps:
            await play.take(place, step)
        await play.finish()

    scenario()


@sampled
@settings(max_examples=choose_size(60, 3_000), deadline=None)
@given(st.lists(st.tuples(races, st.booleans()), max_size=8))
def test_of_two_changes_at_once_every_accepted_one_is_in_the_head(
    given_races: list[tuple[tuple[Edit, Edit], bool]],
) -> None:
    @in_loop
    async def scenario() -> None:
        play = Play()
        for pair, is_same in given_races:
            await play.race(pair, is_same)
        await play.finish()

    scenario()
