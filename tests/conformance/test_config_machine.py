"""Random publishes, drafts, secrets and purges against a model that keeps plain dicts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from stores import STORES, NamedStore, Subject, name_of
from tests.sampling import sampled

from awaken.contracts.config.audit import AuditEvent, AuditQuery
from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.errors import (
    DraftConflict,
    DraftNotFound,
    HeadMoved,
    UnknownPublication,
)
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.publications import Publication
from awaken.contracts.config.store import ConfigPurge, ConfigWrite, HeadTarget, SealedSecret
from awaken.contracts.errors import IdempotencyConflict
from awaken.testing.store_conformance.config_writing import (
    EPHEMERAL,
    LIST_MAX,
    LIVE,
    check_chain,
    make_canary,
    make_draft,
    make_event,
    make_object,
    make_publication,
    make_secret,
    read_config,
)

change = msgspec.structs.replace
TEXTS, DRAFTS, KEYS, REFS = range(6), ("d", "e"), ("k", "l"), ("x", "y", "z")
texts, drafts = st.sampled_from(TEXTS), st.sampled_from(DRAFTS)
keys, refs = st.sampled_from((None, *KEYS)), st.sampled_from(REFS)
ages = st.integers(0, 60)


class ConfigMachine(RuleBasedStateMachine):
    def __init__(self, open_store: Callable[[], Subject]) -> None:
        super().__init__()
        self.subject = open_store()
        self.store, self.do = self.subject.store, self.subject.do
        self.head: ConfigHead | None = None
        self.last = 0
        """The last number of a publication."""
        self.publications: dict[int, Publication] = {}
        self.objects: dict[str, bytes] = {}
        self.drafts: dict[str, ConfigDraft] = {}
        self.secrets: dict[str, SealedSecret] = {}
        self.requests: dict[str, tuple[str, int | None]] = {}
        self.audit: dict[int, AuditEvent] = {}
        self.events = 0
        self.time = 0

    def teardown(self) -> None:
        self.subject.close()

    def tick(self) -> int:
        self.time += 1
        return self.time

    def revision(self) -> int:
        return 0 if self.head is None else self.head.revision

    def refuse(self, error: type[Exception], work: Callable[[], Any]) -> None:
        before = self.do(read_config(self.store))
        with pytest.raises(error):
            self.do(work())
        assert self.do(read_config(self.store)) == before

    def note(self, write: ConfigWrite, publication: Publication | None) -> None:
        """Keep what an accepted write makes."""
        if publication is not None:
            self.last = publication.no
            self.publications[publication.no] = publication
        self.objects |= write.objects
        for event in write.audit:
            self.events += 1
            named = None if publication is None else publication.no
            self.audit[self.events] = change(event, publication=named)
        for ref in write.removed_secrets:
            self.secrets.pop(ref, None)
        self.secrets |= {it.ref: it for it in write.secrets}
        if write.removed_draft is not None:
            del self.drafts[write.removed_draft]
        if write.idempotency_key is not None:
            made = None if publication is None else publication.no
            self.requests[write.idempotency_key] = (write.request_hash, made)

    # --- what processes do ---

    @rule(
        text=texts,
        key=keys,
        late=st.integers(0, 3),
        draft=st.none() | drafts,
        is_canary=st.booleans(),
    )
    def publish(
        self, text: int, key: str | None, late: int, draft: str | None, is_canary: bool
    ) -> None:
        """With every part; refused if the head moved or the draft is gone."""
        at = self.tick()
        name, body = make_object(f"text {text}")
        head = self.head or ConfigHead()
        if is_canary:
            head = change(head, canary=make_canary())
        write = ConfigWrite(
            objects={name: body},
            publication=make_publication({"a": name}, at, parent=head.publication),
            target=HeadTarget.CANARY if is_canary else HeadTarget.LIVE,
            head=change(head, canary=head.canary if is_canary else None),
            expected_revision=self.revision() - (late == 0),
            audit=tuple(make_event(at, id=f"e{at}-{n}", after=name) for n in range(text % 3)),
            removed_draft=draft,
            idempotency_key=key,
            request_hash=f"{text}",
        )
        known = self.requests.get(key or "")
        if known is not None:
            self.repeat(write, known)
        elif late == 0:
            self.refuse(HeadMoved, lambda: self.store.write_config(write))
        elif draft is not None and draft not in self.drafts:
            self.refuse(DraftNotFound, lambda: self.store.write_config(write))
        else:
            receipt = self.do(self.store.write_config(write))
            made = change(write.publication, no=self.last + 1)
            assert receipt.publication == made
            moved = change(write.head, revision=self.revision() + 1)
            if is_canary:
                self.head = change(moved, canary=make_canary(made.no))
            else:
                self.head = change(moved, publication=made.no)
            assert receipt.head == self.head
            self.note(write, made)

    def repeat(self, write: ConfigWrite, known: tuple[str, int | None]) -> None:
        if known[0] != write.request_hash:
            self.refuse(IdempotencyConflict, lambda: self.store.write_config(write))
            return
        before = self.do(read_config(self.store))
        receipt = self.do(self.store.write_config(write))
        assert receipt.is_repeated
        assert receipt.publication == self.publications.get(known[1] or 0)
        assert self.do(read_config(self.store)) == before

    @rule(text=texts)
    def preview(self, text: int) -> None:
        """An ephemeral publication moves no head."""
        at = self.tick()
        name, body = make_object(f"text {text}")
        publication = make_publication({"a": name}, at, kind=EPHEMERAL)
        write = ConfigWrite(objects={name: body}, publication=publication)
        self.do(self.store.write_config(write))
        self.note(write, change(publication, no=self.last + 1))

    @rule(no=st.integers(1, 12))
    def roll_back(self, no: int) -> None:
        head = change(self.head or ConfigHead(), publication=no, canary=None)
        write = ConfigWrite(head=head, expected_revision=self.revision())
        if no not in self.publications:
            self.refuse(UnknownPublication, lambda: self.store.write_config(write))
            return
        self.do(self.store.write_config(write))
        self.head = change(head, revision=self.revision() + 1)

    @rule(ref=refs, other=refs)
    def change_secrets(self, ref: str, other: str) -> None:
        at = self.tick()
        write = ConfigWrite(
            head=self.head or ConfigHead(),
            expected_revision=self.revision(),
            secrets=(make_secret(ref, at),),
            removed_secrets=(other,),
            audit=(make_event(at, resource=f"secrets/{ref}"),),
        )
        self.do(self.store.write_config(write))
        revision = self.revision() + 1
        self.head = change(self.head or ConfigHead(), revision=revision, secrets_at=revision)
        self.note(write, None)

    @rule(name=drafts, expected=st.integers(0, 3), base=st.none() | st.integers(1, 12), life=ages)
    def edit(self, name: str, expected: int, base: int | None, life: int) -> None:
        at = self.tick()
        draft = make_draft(name, base=base, updated_at=at % 7, expires_at=at + life)
        stored = self.drafts.get(name)
        save = partial(self.store.save_draft, draft, expected)
        if stored is None and expected:
            self.refuse(DraftNotFound, save)
        elif stored is not None and stored.revision != expected:
            self.refuse(DraftConflict, save)
        elif base is not None and base not in self.publications:
            self.refuse(UnknownPublication, save)
        else:
            self.drafts[name] = change(draft, revision=expected + 1)
            assert self.do(save()) == self.drafts[name]

    @rule(name=drafts)
    def discard(self, name: str) -> None:
        was_there = self.drafts.pop(name, None) is not None
        assert self.do(self.store.delete_draft(name)) is was_there

    @rule(
        age=ages,
        keep=st.integers(0, 4),
        pinned=st.frozensets(st.integers(1, 12), max_size=3),
        audit_age=ages,
        forgets=st.booleans(),
    )
    def purge(
        self, age: int, keep: int, pinned: frozenset[int], audit_age: int, forgets: bool
    ) -> None:
        now = self.tick()
        before = now - age
        purge = ConfigPurge(
            pinned=pinned,
            keep_newest=keep,
            live_before=before,
            ephemeral_before=before,
            audit_before=1000 * (now - audit_age),
            drafts_before=before,
            requests_before=1 << 50 if forgets else 0,
        )
        purged = self.do(self.store.purge_config(purge))
        self.drafts = {
            name: it for name, it in self.drafts.items() if it.expires_at >= purge.drafts_before
        }
        kept = pinned | {it.base for it in self.drafts.values()}
        if self.head is not None:
            kept |= {self.head.publication}
            kept |= {None if self.head.canary is None else self.head.canary.publication}
        kept |= set(
            sorted(no for no, it in self.publications.items() if it.kind is LIVE)[-keep:]
            if keep
            else ()
        )
        gone = [
            no for no, it in self.publications.items() if no not in kept and it.created_at < before
        ]
        old_audit = [no for no, it in self.audit.items() if it.at < purge.audit_before]
        assert (purged.publications, purged.audit) == (len(gone), len(old_audit))
        for no in gone:
            del self.publications[no]
        for no in old_audit:
            del self.audit[no]
        if gone or old_audit:
            named = {it.manifest["agents"]["a"].hash for it in self.publications.values()}
            named |= {it.after for it in self.audit.values() if it.after is not None}
            assert purged.objects == len(self.objects.keys() - named)
            self.objects = {name: it for name, it in self.objects.items() if name in named}
        if forgets:
            self.requests.clear()

    # --- what must hold after every rule ---

    @invariant()
    def the_head_and_publications_are_those_of_the_model(self) -> None:
        assert self.do(self.store.find_config_head()) == self.head
        listed = self.do(self.store.list_publications(limit=LIST_MAX, with_ephemeral=True))
        assert [it.no for it in listed] == sorted(self.publications, reverse=True)
        live = self.do(self.store.list_publications(before=9, limit=3))
        numbers = sorted(no for no, it in self.publications.items() if it.kind is LIVE and no < 9)
        assert [it.no for it in live] == numbers[::-1][:3]
        for no in (self.last, max(self.last - 3, 1), self.last + 1):
            assert self.do(self.store.load_publication(no)) == self.publications.get(no)

    @invariant()
    def objects_drafts_secrets_and_keys_are_those_of_the_model(self) -> None:
        names = [make_object(f"text {text}")[0] for text in TEXTS]
        assert self.do(self.store.load_objects(names)) == self.objects
        ordered = sorted(self.drafts.values(), key=lambda it: (-it.updated_at, it.id))
        assert list(self.do(self.store.list_drafts())) == ordered
        assert {it.ref: it for it in self.do(self.store.list_secrets())} == self.secrets
        for key in KEYS:
            assert self.do(self.store.find_config_request(key)) == self.requests.get(key)

    @invariant()
    def the_audit_is_one_chain(self) -> None:
        assert {row.no: row.event for row in self.do(check_chain(self.store))} == self.audit
        for resource in ("agents/a", "secrets/x"):
            rows = self.do(self.store.list_audit(AuditQuery(resource=resource, limit=4)))
            found = [no for no, it in self.audit.items() if it.resource == resource]
            assert [row.no for row in rows] == found[::-1][:4]


@sampled
@pytest.mark.parametrize("named", STORES, ids=name_of)
def test_configuration_behaves_like_its_model(named: NamedStore) -> None:
    machine = partial(ConfigMachine, named.open)
    run_state_machine_as_test(machine, settings=named.settings())
