"""Demo data: real runs of several outcomes that count nowhere and are removed whole."""

import asyncio
import base64
import hashlib
import hmac
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Access, Agent, AgentRuntime
from awaken.bootstrap.demo_evals import make_evals
from awaken.contracts.config.audit import AuditQuery
from awaken.contracts.evals.store import open_eval_store
from awaken.contracts.runs.records import RunKind
from awaken.contracts.storage.queries import RunQuery
from awaken.contracts.storage.schedules import ScheduleStatus
from awaken.models import InferenceRequest
from awaken.services.demo_data import STORY_IDS
from awaken.stores import MemoryStore
from awaken.testing import FakeClock, ScriptedModel
from awaken.testing.store_conformance.writing import read_everything

from .in_process import ask, bearer, config, token

PATH = "/v1/system/demo-data"
KNOWLEDGE = "/v1/knowledge/demo-data-handbook"


def refuse(_: InferenceRequest) -> str:
    raise AssertionError("a real model was asked")


def make_runtime(store: Any, **options: Any) -> AgentRuntime:
    return AgentRuntime([Agent("a", model=ScriptedModel([refuse]))], store=store, **options)


def tokens() -> Any:
    return config(
        token("boss"),
        token("operator", frozenset({Access.READ, Access.OPERATE, Access.INVOKE})),
        token("ann", tenant_id="ann"),
    )


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


async def get(app: Any, path: str, who: str = "boss") -> Any:
    answer = await ask(app, "GET", path, headers=bearer(who))
    assert answer.status == 200, answer
    return answer.json


async def do(app: Any, method: str, who: str = "boss") -> Any:
    answer = await ask(app, method, PATH, headers=bearer(who))
    assert answer.status == 200, answer
    return answer.json


def test_demo_data_has_runs_of_every_outcome_and_counts_nowhere(store: str) -> None:
    async def main() -> None:
        runtime = make_runtime(store)
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            before = await read_everything(runtime.store)
            assert await get(app, PATH) == {"is_there": False, "thread_ids": []}
            made = await do(app, "POST")
            assert made["is_there"] is True
            assert made["thread_ids"] == list(STORY_IDS)
            runs = (await get(app, "/v1/runs?kind=demo&limit=200"))["items"]
            ends = {(it["status"], (it.get("termination") or {}).get("type")) for it in runs}
            done, failed = ("done", "natural_end"), ("done", "error")
            assert {done, failed, ("waiting", None)} <= {
                it if it[0] == "done" else (it[0], None) for it in ends
            }
            assert any(it.get("parent_run_id") for it in runs)
            assert max(it["steps"] for it in runs) > 10
            # They are not among what real agents did.
            assert (await get(app, "/v1/runs?total=true"))["total"] == 0
            for path in ("/v1/threads", "/v1/threads/summaries", "/v1/threads?root=true"):
                listed = await get(app, f"{path}{'&' if '?' in path else '?'}total=true")
                assert (listed["items"], listed["total"]) == ([], 0), path
            assert len((await get(app, "/v1/threads?demo=true"))["items"]) > len(made["thread_ids"])
            assert (await get(app, "/v1/threads/search?q=refund"))["items"] == []
            waiting = await get(app, "/v1/tickets?total=true&limit=1")
            assert (waiting["items"], waiting["total"]) == ([], 0)
            asked = (await get(app, "/v1/tickets?demo=true"))["items"]
            assert len(asked) == 2
            for it in asked:
                on_thread = await get(app, f"/v1/threads/{it['thread_id']}/tickets")
                assert [own["ticket_id"] for own in on_thread["items"]] == [it["ticket_id"]]
            summary = await get(app, "/v1/runs/summary")
            assert not any(value for value in summary.values() if isinstance(value, int))
            await runtime.store.count_usage()
            days = await runtime.store.list_usage(0, 10**6)
            assert days == ()
            assert [it["id"] for it in (await get(app, "/v1/agents"))["items"]] == ["a"]
            assert await do(app, "POST") == made
            again = (await get(app, "/v1/runs?kind=demo&limit=200"))["items"]
            assert again == runs
            assert await do(app, "DELETE") == {"is_there": False, "thread_ids": []}
            assert await read_everything(runtime.store) == before
            assert await do(app, "DELETE") == {"is_there": False, "thread_ids": []}

    asyncio.run(main())


def test_demo_data_is_for_administrators_and_audited() -> None:
    async def main() -> None:
        clock = FakeClock()
        runtime = make_runtime(MemoryStore(clock=clock), clock=clock, managed=True)
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            for method in ("POST", "DELETE"):
                for who in ("operator", "ann"):
                    answer = await ask(app, method, PATH, headers=bearer(who))
                    assert answer.status == 403, (method, who)
            assert (await get(app, PATH, "operator"))["is_there"] is False
            await do(app, "POST")
            # A tenant sees nothing of it.
            assert (await get(app, "/v1/runs?kind=any", "ann"))["items"] == []
            assert (await get(app, "/v1/tickets", "ann"))["items"] == []
            await do(app, "DELETE")
            store: Any = runtime.store
            rows = await store.list_audit(AuditQuery())
            acts = [(it.event.action, it.event.resource) for it in rows]
            assert acts[:2] == [("delete", "system/demo-data"), ("create", "system/demo-data")]

    asyncio.run(main())


def test_a_thread_of_a_client_with_such_a_name_stays() -> None:
    async def main() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["Hello."]))])
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            own = await runtime.run("a", "hi", thread_id="demo-data-order")
            made = await do(app, "POST")
            assert "demo-data-order" not in made["thread_ids"]
            assert (await get(app, "/v1/threads"))["items"] == ["demo-data-order"]
            await do(app, "DELETE")
            runs = (await runtime.store.list_runs(RunQuery())).items
            assert [(it.run_id, it.kind) for it in runs] == [(own.run_id, RunKind.CHAT)]

    asyncio.run(main())


def test_the_pages_of_memory_have_demo_data_which_is_removed_whole(store: str) -> None:
    async def main() -> None:
        runtime = make_runtime(store)
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            owned = "/v1/memory/facts?project=demo-data-orders"
            mine = await ask(app, "POST", owned, body={"text": "mine"}, headers=bearer("ann"))
            assert mine.status == 201, mine
            for _ in range(2):
                await do(app, "POST")
                facts = (await get(app, owned))["items"]
                assert len(facts) == 3
                assert {it["thread_id"] for it in facts} == {STORY_IDS[0]}
                (found, *_) = (await get(app, f"{KNOWLEDGE}/search?query=refund"))["items"]
                assert found["title"] == "Shipping handbook"
                assert len((await get(app, f"{KNOWLEDGE}/documents"))["items"]) == 1
            assert (await do(app, "DELETE"))["is_there"] is False
            assert (await get(app, owned))["items"] == []
            assert (await get(app, f"{KNOWLEDGE}/documents"))["items"] == []
            # A tenant's project of the same name is another one.
            assert len((await get(app, owned, "ann"))["items"]) == 1

    asyncio.run(main())


DATASETS, EVALS, DATASET = "/v1/eval/datasets", "/v1/evals", "demo-data-refunds"


def test_the_pages_of_datasets_and_evals_have_demo_data_which_is_removed_whole(store: str) -> None:
    async def main() -> None:
        runtime = make_runtime(store)
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            for _ in range(2):
                await do(app, "POST")
                assert (await get(app, DATASETS))["datasets"] == []
                assert (await get(app, EVALS))["evals"] == []
                assert (await get(app, "/v1/eval/runs"))["runs"] == []
                (listed,) = (await get(app, f"{DATASETS}?demo=true"))["datasets"]
                assert (listed["id"], listed["is_demo"], listed["fixture_count"]) == (
                    DATASET,
                    True,
                    6,
                )
                evals = [it["eval"] for it in (await get(app, f"{EVALS}?demo=true"))["evals"]]
                gates = [(it["is_demo"], it["summary"]["gate"]["status"]) for it in evals]
                assert gates == [(True, "passed"), (True, "failed")]
            change, first = evals
            items = (await get(app, f"{EVALS}/{change['eval_id']}/items"))["items"]
            assert len(items) == change["planned"]
            compared = await get(app, f"{EVALS}/{first['eval_id']}/compare/{change['eval_id']}")
            assert compared["comparisons"]
            assert len((await get(app, f"{DATASETS}/{DATASET}"))["spec"]["fixtures"]) == 6
            await do(app, "DELETE")
            for path in (f"{DATASETS}/{DATASET}", f"{EVALS}/{first['eval_id']}"):
                assert (await say(app, "GET", path)).status == 404, path
            evals_store = open_eval_store(runtime.store)
            assert await evals_store.list_eval_items(change["eval_id"]) == ()
            assert await evals_store.list_dataset_revisions(DATASET) == ()
            hashes = list(make_evals(0).objects)
            assert await evals_store.load_eval_objects(hashes) == {}
        if store.startswith("sqlite"):
            with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as file:
                for table in ("eval_datasets", "eval_runs", "eval_items", "eval_objects"):
                    assert file.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,), table

    asyncio.run(main())


def test_a_dataset_of_a_client_with_such_a_name_or_such_a_case_stays() -> None:
    async def main() -> None:
        runtime = make_runtime("memory://")
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            await do(app, "POST")
            copied = (await get(app, f"{DATASETS}/{DATASET}"))["spec"]["fixtures"][0]
            await do(app, "DELETE")
            for name in (DATASET, "copy"):
                made = await say(
                    app, "POST", DATASETS, {"id": name, "spec": {"fixtures": [copied]}}
                )
                assert made.status == 201, made
                await do(app, "POST")
                await do(app, "DELETE")
            for name in (DATASET, "copy"):
                assert (await get(app, f"{DATASETS}/{name}"))["spec"]["fixtures"], name

    asyncio.run(main())


SCHEDULE, TRIGGER = "demo-data-orders", "demo-data-parcels"
HOOK_SECRET = "whsec_" + base64.b64encode(b"a secret that nobody has").decode()


def sign(body: bytes, now_ms: int) -> dict[str, str]:
    """Sign a request as the sender of the demo's trigger would."""
    sent_at = str(now_ms // 1000)
    signed = b".".join((b"msg_1", sent_at.encode(), body))
    key = base64.b64decode(HOOK_SECRET.removeprefix("whsec_"))
    made = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{made}",
    }


async def say(app: Any, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return await ask(app, method, path, body=body, headers=bearer("boss") | headers)


def test_the_pages_of_schedules_and_triggers_have_demo_data_with_a_history(store: str) -> None:
    async def main() -> None:
        runtime = make_runtime(store)
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            await do(app, "POST")
            for kind in ("schedules", "triggers"):
                assert (await get(app, f"/v1/{kind}"))["items"] == [], kind
                assert (await get(app, f"/v1/{kind}?demo=true", "ann"))["items"] == [], kind
                listed = (await get(app, f"/v1/{kind}?demo=true"))["items"]
                assert all(it["is_demo"] for it in listed), kind
            assert (await runtime.schedules.list()).items == ()
            assert (await runtime.triggers.list()).items == ()
            daily = await get(app, f"/v1/schedules/{SCHEDULE}")
            assert (daily["status"], daily["next_due"], daily["fires_at"]) == ("paused", None, None)
            assert (daily["fired_count"], daily["skipped_count"]) == (2, 1)
            firings = (await get(app, f"/v1/schedules/{SCHEDULE}/firings"))["items"]
            assert [it["outcome"] for it in firings] == ["fired", "skipped", "fired"]
            assert len({it["due_at"] for it in firings}) == 3
            runs = {it["run_id"] for it in (await get(app, "/v1/runs?kind=demo"))["items"]}
            assert {it["run_id"] for it in firings} - {None} <= runs
            (hook,) = (await get(app, "/v1/triggers?demo=true"))["items"]
            assert (hook["is_paused"], hook["missing_secrets"]) == (True, [])
            delivered = (await get(app, f"/v1/triggers/{TRIGGER}/deliveries"))["items"]
            assert sorted(it["outcome"] for it in delivered) == ["fired", "ignored"]
            journals = (await get(app, "/v1/runs?kind=demo&is_workflow=true"))["items"]
            assert sorted(it["status"] for it in journals) == ["done", "waiting"]
            assert (await get(app, "/v1/runs?is_workflow=true"))["items"] == []
            # Making it again changes nothing.
            await do(app, "POST")
            assert await get(app, f"/v1/schedules/{SCHEDULE}") == daily
            await do(app, "DELETE")
            for path in (f"/v1/schedules/{SCHEDULE}", f"/v1/triggers/{TRIGGER}"):
                assert (await say(app, "GET", path)).status == 404, path
            for path in (f"/v1/schedules/{SCHEDULE}/firings", f"/v1/triggers/{TRIGGER}/deliveries"):
                assert (await say(app, "GET", path)).status == 404, path

    asyncio.run(main())


def test_nothing_of_the_demo_data_is_started_continued_or_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEMO_DATA_HOOK", HOOK_SECRET)

    async def main() -> None:
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        runtime = make_runtime(store, clock=clock, has_worker=False)
        async with asyncio.timeout(60), runtime:
            app = runtime.asgi(tokens())
            await do(app, "POST")
            before = await read_everything(store)
            daily = await get(app, f"/v1/schedules/{SCHEDULE}")
            spec = {it: daily[it] for it in ("timing", "target", "description")}
            hook = await get(app, f"/v1/triggers/{TRIGGER}")
            hook_spec = {it: hook[it] for it in ("scheme", "secrets", "target", "filter")}
            schedule, trigger = f"/v1/schedules/{SCHEDULE}", f"/v1/triggers/{TRIGGER}"
            tickets = (await get(app, "/v1/tickets?demo=true"))["items"]
            decisions = [
                (
                    "POST",
                    f"/v1/threads/{it['thread_id']}/decision",
                    {"ticket_id": it["ticket_id"], "action": "resume"},
                )
                for it in tickets
            ]
            (waiting,) = (await get(app, "/v1/runs?kind=demo&is_workflow=true&status=waiting"))[
                "items"
            ]
            run = f"/v1/runs/{waiting['run_id']}"
            attempts: list[tuple[str, str, Any]] = [
                *(("POST", f"{schedule}/{act}", None) for act in ("fire", "resume", "pause")),
                ("DELETE", schedule, None),
                ("PUT", schedule, spec),
                *(("POST", f"{trigger}/{act}", None) for act in ("resume", "pause")),
                ("DELETE", trigger, None),
                ("PUT", trigger, hook_spec),
                *decisions,
                (
                    "POST",
                    f"/v1/runs/{waiting['run_id']}/events/parcel",
                    {"payload": {"order": "A"}},
                ),
                ("POST", f"{run}/reset", {}),
                ("PUT", f"{DATASETS}/{DATASET}", {"expected_revision": 1, "spec": {}}),
                ("DELETE", f"{DATASETS}/{DATASET}?expected_revision=1", None),
                (
                    "POST",
                    f"{DATASETS}/{DATASET}/fixtures",
                    {"fixture": {"id": "more", "user_input": "Hi"}, "expected_revision": 1},
                ),
                ("POST", EVALS, {"dataset_id": DATASET}),
                ("POST", f"{EVALS}/estimate", {"dataset_id": DATASET}),
            ]
            for method, path, body in attempts:
                answer = await say(app, method, path, body, **{"if-match": "*"})
                assert (answer.status, answer.json["code"]) == (409, "demo_record"), (method, path)
            assert await read_everything(store) == before
            # Even one that was made active, and a request with the right signature, start nothing.
            stored = await store.find_schedule(SCHEDULE)
            assert stored is not None
            now = clock.now_ms()
            await store.save_schedule(
                msgspec.structs.replace(
                    stored, status=ScheduleStatus.ACTIVE, next_due=now, wake_at=now
                )
            )
            open_hook = await store.find_trigger(TRIGGER)
            assert open_hook is not None
            await store.save_trigger(
                msgspec.structs.replace(
                    open_hook, spec=msgspec.structs.replace(open_hook.spec, is_paused=False)
                )
            )
            clock.advance(1000)
            await runtime._scheduling.firer.fire_due()
            fired = (await store.find_schedule(SCHEDULE)).last
            assert fired is not None
            assert (fired.outcome, fired.reason) == ("refused", "rights_lost")
            body = b'{"type": "parcel.returned", "order": "A-1"}'
            answer = await ask(app, "POST", trigger, body=body, headers=sign(body, clock.now_ms()))
            assert (answer.status, answer.json["code"]) == (409, "run_refused")
            assert (await get(app, "/v1/dispatches"))["items"] == []
            assert (await get(app, "/v1/runs?total=true"))["total"] == 0

    asyncio.run(main())
