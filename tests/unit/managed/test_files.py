"""Files say what is live: planned, applied, exported, and never over what others changed."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.bootstrap.config_files import (
    format_files,
    read_config_files,
    write_back,
    write_files,
)
from awaken.bootstrap.config_kinds import config_kinds
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.heads import CanaryPlan
from awaken.contracts.config.store import ConfigReceipt, ConfigWrite
from awaken.contracts.errors import InvalidInput
from awaken.managed.documents import MergedDocuments, name_files
from awaken.managed.drafts import PublishDraft
from awaken.managed.files import ApplyOptions, DriftChoice, FilePlan, FileSet
from awaken.services.document_files import decode_document, format_document
from awaken.stores.memory.store import MemoryStore

from .config_world import ANN, BEN, ConfigWorld, in_loop

KINDS = config_kinds()
PROMPT = "agents/a/system_prompt_file"
SECRET = "sk-canary-0123456789"


def agent(**fields: Any) -> dict[str, Any]:
    return {"model_id": "scripted", **fields}


def agents(**bodies: dict[str, Any]) -> FileSet:
    return FileSet(origin="repo", records={"agents": bodies})


async def apply(world: ConfigWorld, files: FileSet, **options: Any) -> tuple[FilePlan, int | None]:
    plan, published = await world.managed.files.apply(files, ApplyOptions(**options), ANN)
    return plan, None if published is None else published.publication.no


async def plan(world: ConfigWorld, files: FileSet, **options: Any) -> FilePlan:
    return await world.managed.files.plan(files, ApplyOptions(**options), ANN)


async def owner_of(world: ConfigWorld, record_id: str) -> str:
    return (await world.managed.records.get_record("agents", record_id)).meta.owner


def read(folder: Path) -> MergedDocuments:
    return read_config_files(folder, KINDS)


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".yaml").write_text(text)


@in_loop
async def test_files_are_applied_as_one_change_set_that_they_own() -> None:
    world = ConfigWorld()
    files = agents(a=agent(system_prompt="A"), b=agent())
    planned = await plan(world, files)
    assert planned.creates == (("agents", "a"), ("agents", "b"))
    assert await world.store.find_config_head() is None
    assert (await apply(world, files))[1] == 1
    assert await owner_of(world, "a") == "file:repo"
    assert not (await plan(world, files)).has_changes
    assert (await apply(world, files))[1] is None


@in_loop
async def test_an_update_names_its_fields_and_nothing_else() -> None:
    world = ConfigWorld()
    await apply(world, agents(a=agent(system_prompt="A"), b=agent()))
    planned = await plan(world, agents(a=agent(system_prompt="B"), b=agent()))
    (update,) = planned.updates
    assert (update.ns, update.id, [it.path for it in update.fields]) == (
        "agents",
        "a",
        ["system_prompt"],
    )


@in_loop
async def test_defaults_that_are_written_out_change_nothing() -> None:
    world = ConfigWorld()
    await world.put("a", system_prompt="A")
    files = agents(a=agent(id="a", system_prompt="A", plugin_ids=[], sections={}))
    assert not (await plan(world, files)).has_changes


@in_loop
async def test_a_record_of_another_owner_is_taken_only_on_demand() -> None:
    world = ConfigWorld()
    await world.put("a", system_prompt="mine")
    files = agents(a=agent(system_prompt="theirs"))
    (problem,) = (await plan(world, files)).problems
    assert (problem.path, problem.code) == ("agents/a", "owned_by_other")
    with pytest.raises(InvalidConfig):
        await apply(world, files)
    assert (await apply(world, files, adopt=True))[1] == 2
    assert await owner_of(world, "a") == "file:repo"


@in_loop
async def test_the_same_record_of_another_owner_stays_theirs_until_it_is_adopted() -> None:
    world = ConfigWorld()
    await world.put("a", system_prompt="same")
    files = agents(a=agent(system_prompt="same"))
    assert (await apply(world, files))[1] is None
    assert (await apply(world, files, adopt=True))[1] == 2
    assert await owner_of(world, "a") == "file:repo"


@in_loop
async def test_drift_stops_is_overwritten_or_is_kept() -> None:
    world = ConfigWorld()
    await apply(world, agents(a=agent(system_prompt="1"), b=agent()))
    await world.put("a", BEN, system_prompt="console")
    files = agents(a=agent(system_prompt="2"), b=agent(system_prompt="new"))
    assert (await plan(world, files)).drift == (("agents", "a"),)
    with pytest.raises(InvalidConfig) as refused:
        await apply(world, files)
    assert [(it.path, it.code) for it in refused.value.problems] == [("agents/a", "drift")]
    kept, _ = await apply(world, files, drift=DriftChoice.KEEP)
    assert (kept.kept, [it.id for it in kept.updates]) == ((("agents", "a"),), ["b"])
    assert (await world.managed.records.get_record("agents", "a")).body[
        "system_prompt"
    ] == "console"
    await apply(world, files, drift=DriftChoice.FORCE)
    assert (await world.managed.records.get_record("agents", "a")).body["system_prompt"] == "2"
    assert not (await plan(world, files)).drift


@in_loop
async def test_drift_that_the_files_followed_is_accepted() -> None:
    world = ConfigWorld()
    await apply(world, agents(a=agent(system_prompt="1")))
    await world.put("a", BEN, system_prompt="console")
    files = agents(a=agent(system_prompt="console"))
    assert not (await plan(world, files)).drift
    await apply(world, files)
    assert not (await world.managed.records.get_record("agents", "a")).meta.has_drift


@in_loop
async def test_prune_deletes_only_what_the_origin_owns() -> None:
    world = ConfigWorld()
    await apply(world, agents(a=agent(), b=agent()))
    await world.put("c")
    assert not (await plan(world, agents(a=agent()))).has_changes
    pruned, _ = await apply(world, agents(a=agent()), prune=True)
    assert pruned.deletes == (("agents", "b"),)
    assert (await world.managed.files.export()).records["agents"].keys() == {"a", "c"}


@in_loop
async def test_a_record_that_the_files_dropped_is_drift_only_when_it_would_be_pruned() -> None:
    world = ConfigWorld()
    await apply(world, agents(a=agent(), b=agent()))
    await world.put("b", BEN, system_prompt="console")
    assert not (await plan(world, agents(a=agent()))).drift
    assert (await plan(world, agents(a=agent()), prune=True)).drift == (("agents", "b"),)


@in_loop
async def test_overrides_patch_and_hide_records_of_the_code() -> None:
    world = ConfigWorld()
    patches = {"agents": {"greeter": {"system_prompt": "Hi.", "hidden": True}}}
    files = FileSet(origin="repo", overrides=patches)
    await apply(world, files)
    record = await world.managed.records.get_record("agents", "greeter")
    assert (record.body["system_prompt"], record.meta.is_hidden) == ("Hi.", True)
    assert (await world.managed.files.export()).overrides == patches
    assert not (await plan(world, files)).has_changes
    nothing = FileSet(origin="repo", overrides={"agents": {"greeter": {}}})
    assert (await apply(world, nothing))[0].deletes == (("agents", "greeter"),)


@in_loop
async def test_every_problem_is_listed_with_its_path_and_without_secrets() -> None:
    world = ConfigWorld()
    files = FileSet(
        origin="repo",
        records={
            "agents": {
                "a": agent(modle=1, max_rounds="x"),
                "b/c": agent(),
                "d": {"id": "e"},
                "greeter": agent(),
            },
            "providers": {"p": {"adapter": "openai_chat", "api_key": SECRET}},
            "nothing": {"x": {}},
            "tools": {"t": {"description": "x"}},
        },
        overrides={
            "agents": {"a": {}, "f": {"id": "g"}, "h": {"hidden": 1}},
            "models": {"m": {}},
        },
    )
    planned = await plan(world, files)
    found = {(it.path, it.code) for it in planned.problems}
    assert found >= {
        ("agents/a/modle", "unknown_field"),
        ("agents/a/max_rounds", "invalid"),
        ("agents/b/c/id", "invalid_id"),
        ("agents/d/id", "invalid_id"),
        ("providers/p/api_key", "plain_secret"),
        ("nothing", "unknown_namespace"),
        ("agents/a", "twice"),
        ("agents/f/id", "not_patchable"),
        ("agents/h/hidden", "invalid"),
        ("models/m", "not_overridable"),
    }
    (secret,) = [it for it in planned.problems if it.code == "plain_secret"]
    assert '{"$secret": "env:NAME"}' in secret.message
    assert SECRET not in repr(planned)
    with pytest.raises(InvalidConfig):
        await apply(world, files)
    assert await world.store.find_config_head() is None


@in_loop
async def test_a_record_with_the_id_of_one_of_the_code_is_a_problem_of_the_plan() -> None:
    (problem,) = (await plan(ConfigWorld(), agents(greeter=agent()))).problems
    assert (problem.path, problem.code) == ("agents/greeter", "owned_by_code")


@in_loop
async def test_a_plan_names_missing_secrets_and_compiles() -> None:
    world = ConfigWorld()
    provider = {"adapter": "openai_chat", "api_key": {"$secret": "store:providers/p/api_key"}}
    files = FileSet(origin="repo", records={"providers": {"p": provider}})
    assert (await plan(world, files)).missing_secrets == ("store:providers/p/api_key",)
    (broken,) = (await plan(world, agents(a=agent(system_prompt="broken")))).problems
    assert broken.code == "broken"


class RacingStore(MemoryStore):
    """Lets another process publish between the reading of the head and the first write."""

    rival: ConfigWorld | None = None

    async def write_config(self, write: ConfigWrite) -> ConfigReceipt:
        rival, self.rival = self.rival, None
        if rival is not None:
            await apply(rival, agents(a=agent(system_prompt="A")))
        return await super().write_config(write)


@in_loop
async def test_two_processes_that_apply_the_same_files_leave_one_publication() -> None:
    store = RacingStore()
    store.rival = ConfigWorld(store)
    assert (await apply(ConfigWorld(store), agents(a=agent(system_prompt="A"))))[1] is None
    assert len(await store.list_publications()) == 1


@in_loop
async def test_a_draft_of_files_publishes_what_they_own() -> None:
    world = ConfigWorld()
    files = agents(a=agent())
    _, draft = await world.managed.files.draft(files, ApplyOptions(), ANN)
    assert draft is not None
    assert await world.store.find_config_head() is None
    await world.managed.drafts.publish(draft.id, PublishDraft(author=BEN))
    assert await owner_of(world, "a") == "file:repo"
    assert (await world.managed.files.draft(files, ApplyOptions(), ANN))[1] is None


@in_loop
async def test_files_may_become_a_canary() -> None:
    world = ConfigWorld()
    await apply(world, agents(a=agent()), canary=CanaryPlan(percent=10))
    head = await world.managed.heads.read_head()
    assert (head.publication, head.canary is not None) == (None, True)


def test_a_folder_may_be_split_in_any_way(tmp_path: Path) -> None:
    write(tmp_path, one="agents: [{id: a, model_id: scripted, system_prompt_file: prompts/a.md}]")
    write(tmp_path, deep__er__two="models: [{id: m, provider_id: p, upstream_model: u}]\ntools: []")
    (tmp_path / "three.json").write_text('{"remotes": [{"name": "r", "base_url": "https://r"}]}')
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "a.md").write_text("Be kind.\n")
    skill = tmp_path / "skills" / "refunds"
    (skill / "references").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: refunds\ndescription: D\n---\nDo it.\n")
    (skill / "references" / "guide.md").write_text("Guide.")
    (skill / "references" / "not.yaml").write_text("no: document")
    write(tmp_path, patches="overrides: {agents: {greeter: {max_rounds: 3}}}")
    write(tmp_path, tools="tools: [{id: search, enabled: false}]")
    found = read(tmp_path)
    assert found.problems == ()
    assert found.files.origin == tmp_path.name
    assert found.files.records["agents"]["a"]["system_prompt"] == "Be kind.\n"
    assert found.files.records["a2a-servers"].keys() == {"r"}
    assert found.files.records["skills"]["refunds"]["files"].keys() == {
        "references/guide.md",
        "references/not.yaml",
    }
    assert found.files.overrides == {
        "agents": {"greeter": {"max_rounds": 3}},
        "tools": {"search": {"enabled": False}},
    }
    assert found.places["models/m"] == "deep/er/two.yaml"


def test_a_repeated_id_is_a_problem_that_names_both_files(tmp_path: Path) -> None:
    write(tmp_path, one="models: [{id: m, provider_id: p, upstream_model: u}]")
    write(tmp_path, two="pools: [{id: m, members: []}]")
    (problem,) = read(tmp_path).problems
    assert (problem.code, problem.file) == ("duplicate_id", "two.yaml")
    assert "one.yaml and in two.yaml" in problem.message


@pytest.mark.parametrize(
    ("text", "path", "code"),
    [
        ("[]", "", "invalid"),
        ("agent: []", "agent", "unknown_section"),
        ("agents: {}", "agents", "invalid"),
        ("agents: [3]", "agents/0", "invalid"),
        ("agents: [{1: 2}]", "agents/0", "invalid"),
        ("agents: [{model_id: m}]", "agents/0/id", "missing"),
        ("overrides: []", "overrides", "invalid"),
        ("overrides: {models: {}}", "overrides/models", "unknown_section"),
        ("overrides: {agents: []}", "overrides/agents", "invalid"),
        ("overrides: {agents: {a: 1}}", "overrides/agents/a", "invalid"),
        ("agents: [", "", "unreadable"),
        ("agents: &a [*a]", "", "unreadable"),
        ("agents: [{id: a, system_prompt_file: ../x}]", PROMPT, "unreadable"),
        ("agents: [{id: a, system_prompt_file: /etc/hosts}]", PROMPT, "unreadable"),
        ("agents: [{id: a, system_prompt_file: out/hosts}]", PROMPT, "unreadable"),
        ("agents: [{id: a, system_prompt_file: 3}]", PROMPT, "invalid"),
        ("agents: [{id: a, system_prompt: x, system_prompt_file: y}]", PROMPT, "invalid"),
    ],
)
def test_a_bad_document_is_a_problem_with_its_file(
    tmp_path: Path, text: str, path: str, code: str
) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "out").symlink_to("/etc")
    write(tmp_path / "c", bad=text)
    (problem, *_) = read(tmp_path / "c").problems
    assert (problem.file, problem.path, problem.code) == ("bad.yaml", path, code)


def test_a_link_out_of_the_folder_and_a_skill_with_scripts_are_problems(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(f"agents: [{{id: '{SECRET}'}}]")
    folder = tmp_path / "c"
    (folder / "s" / "scripts").mkdir(parents=True)
    (folder / "s" / "SKILL.md").write_text("---\nname: s\ndescription: D\n---\nDo it.\n")
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    problems = read(folder).problems
    assert {(it.file, it.code) for it in problems} == {
        ("link.yaml", "unreadable"),
        ("s/SKILL.md", "invalid_skill"),
    }
    assert SECRET not in repr(problems)
    with pytest.raises(InvalidInput, match="no such folder"):
        read(tmp_path / "gone")


def test_the_problems_of_a_plan_name_the_files_of_their_records(tmp_path: Path) -> None:
    write(tmp_path, one="providers: [{id: p, adapter: openai_chat, api_key: " + SECRET + "}]")
    found = read(tmp_path)
    _, problems = asyncio.run(ConfigWorld().managed.files.normalize(found.files))
    (problem,) = name_files(problems, found.places)
    assert (problem.file, problem.path) == ("one.yaml", "providers/p/api_key")


@in_loop
async def test_the_live_version_can_be_put_back_into_the_files(tmp_path: Path) -> None:
    world = ConfigWorld()
    write(tmp_path, one="agents:\n- {id: a, model_id: scripted, system_prompt_file: a.md}\n"
                        "- {id: b, model_id: scripted}\n")  # fmt: skip
    (tmp_path / "a.md").write_text("one")
    await apply(world, read(tmp_path).files)
    await world.put("a", BEN, system_prompt="console", max_rounds=7)
    found = read(tmp_path)
    drift = (await plan(world, found.files)).drift
    live = await world.managed.files.export()
    assert write_back(tmp_path, found, live, drift) == ("a.md", "one.yaml")
    assert (tmp_path / "a.md").read_text() == "console"
    again = read(tmp_path).files
    assert again.records["agents"]["a"]["max_rounds"] == 7
    assert not (await plan(world, again)).drift
    await apply(world, again)
    assert not (await plan(world, again)).has_changes


NAMES = st.from_regex(r"[A-Za-z0-9._:@-]{1,20}", fullmatch=True).filter(
    lambda it: it not in ("meta", "validate", ".", "..")
)
TEXTS = st.text(
    st.one_of(
        st.sampled_from(" \n\t\r'\":#-|>&*!%@`{}[],?=~\\\x85\u2028\ufeff\x00\x7f1e.0yno"),
        st.characters(exclude_categories=("Cs",)),
    ),
    max_size=40,
)
FILLED = TEXTS.filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
REFERENCE = st.sampled_from([{"$secret": "env:KEY"}, {"$secret": "file:/run/secrets/key"}])


def record(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


RECORDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "agents": record(
        {"model_id": FILLED},
        system_prompt=TEXTS,
        max_rounds=st.integers(1, 99),
        reasoning_effort=st.sampled_from(["low", {"budget": 2048}]),
        allowed_tools=st.lists(FILLED, max_size=3, unique=True),
        sections=st.dictionaries(
            NAMES.filter(lambda it: it not in ("permission", "mcp")), JSON, max_size=2
        ),
    ),
    "models": record({"provider_id": NAMES, "upstream_model": FILLED}),
    "model-pools": record(
        {
            "members": st.lists(
                record({"model_id": NAMES.map("m-{}".format)}),
                min_size=1,
                max_size=2,
                unique_by=lambda it: it["model_id"],
            )
        }
    ),
    "providers": record(
        {"adapter": st.just("openai_chat")},
        api_key=REFERENCE,
        adapter_options=record({}, headers=st.dictionaries(NAMES, REFERENCE, max_size=2)),
    ),
    "mcp-servers": record(
        {
            "transport": record(
                {"type": st.just("stdio"), "command": st.just("server")},
                env=st.dictionaries(st.sampled_from(["A", "B"]), REFERENCE),
            )
        },
    ),
    "a2a-servers": record(
        {"base_url": st.just("https://a.example")},
        auth=record({"type": st.just("bearer"), "token": REFERENCE}),
    ),
    "skills": record(
        {"description": FILLED, "body": FILLED},
        files=st.dictionaries(st.sampled_from(["references/a.md", "assets/b.txt"]), TEXTS),
    ),
    "rulesets": record(
        {},
        rules=st.lists(
            st.fixed_dictionaries(
                {
                    "tool": NAMES.filter(str.isalnum),
                    "behavior": st.sampled_from(["allow", "ask", "deny"]),
                }
            ),
            max_size=3,
        ),
    ),
    "budgets": record({"tokens": st.integers(1, 10**9)}, soft=st.booleans()),
}
PATCHES = {
    "agents": record({}, system_prompt=TEXTS, max_rounds=st.none() | st.integers(1, 9),
                     hidden=st.just(True)),
    "tools": record({}, description=FILLED, enabled=st.booleans()),
}  # fmt: skip


@st.composite
def file_sets(draw: st.DrawFn) -> FileSet:
    """Records of every kind, under ids that fit them, and patches."""
    lower = st.from_regex(r"[a-z][a-z0-9]{0,9}", fullmatch=True)
    records = {
        namespace: draw(
            st.dictionaries(
                lower if namespace in ("skills", "mcp-servers", "a2a-servers") else NAMES,
                bodies,
                max_size=2,
            )
        )
        for namespace, bodies in RECORDS.items()
    }
    for name in records["models"].keys() & records["model-pools"].keys():
        del records["model-pools"][name]
    overrides = {
        namespace: draw(st.dictionaries(NAMES, bodies, max_size=2))
        for namespace, bodies in PATCHES.items()
    }
    for name in records["agents"].keys() & overrides["agents"].keys():
        del overrides["agents"][name]
    return FileSet(origin="repo", records=records, overrides=overrides)


@settings(max_examples=150, deadline=None)
@given(file_sets())
def test_what_is_exported_is_read_as_the_same_and_exported_alike(given_files: FileSet) -> None:
    files = ConfigWorld().managed.files
    normal, problems = asyncio.run(files.normalize(given_files))
    assert not problems
    texts = format_files(normal, KINDS)
    documents = {name: decode_document(text.encode(), name) for name, text in texts.items()}
    assert {name: format_document(it) for name, it in documents.items()} == texts
    again, problems = asyncio.run(files.normalize(merged_from(documents)))
    assert not problems
    assert (again.records, again.overrides) == (normal.records, normal.overrides)
    assert format_files(again, KINDS) == texts


def merged_from(documents: dict[str, Any]) -> FileSet:
    from awaken.managed.documents import SourceDocument, merge_documents  # noqa: PLC0415

    found = merge_documents(
        [SourceDocument(file=name, content=it) for name, it in documents.items()], KINDS, "repo"
    )
    assert found.problems == ()
    return found.files


@settings(max_examples=25, deadline=None)
@given(file_sets())
def test_an_export_that_is_applied_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, given_files: FileSet
) -> None:
    folder = tmp_path_factory.mktemp("export")

    @in_loop
    async def scenario() -> None:
        # Patches need the code's records; references between records are the compiler's matter.
        files = FileSet(origin="repo", records=msgspec.structs.asdict(given_files)["records"])
        world = ConfigWorld()
        await apply(world, files)
        texts = format_files(await world.managed.files.export(), KINDS)
        write_files(folder, texts)
        found = read(folder)
        assert found.problems == ()
        planned = await plan(world, found.files)
        assert not planned.problems
        assert not planned.has_changes
        assert format_files(await world.managed.files.export(), KINDS) == texts
        assert write_files(folder, texts) == 0

    scenario()
