"""Stored secrets: encrypted under their name, rotated, read anew at each use, never shown."""

import asyncio
import copy
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from awaken.contracts.config.errors import SecretsUnavailable
from awaken.contracts.config.store import SealedSecret
from awaken.contracts.secrets import (
    RedactedString,
    SecretReference,
    SecretUnresolved,
    encode_reference,
    encode_secret,
    to_builtins_with_secrets,
)
from awaken.managed.secret_keys import ConfiguredKeys, format_key, parse_keys
from awaken.managed.secrets import SecretBox, SecretResolver
from awaken.testing import FakeClock

CANARY = "canary-0123456789"
REF = "store:providers/openai/api_key"
OLD, NEW = format_key("old"), format_key("new")


def box(*keys: str) -> SecretBox:
    return SecretBox(ConfiguredKeys({"AWAKEN_SECRET_KEYS": ",".join(keys)}), FakeClock())


def holding(*secrets: SealedSecret) -> Any:
    """A store that has these secrets."""

    async def list_secrets() -> tuple[SealedSecret, ...]:
        return secrets

    return SimpleNamespace(list_secrets=list_secrets)


def resolver_of(
    held: SecretBox | None, *secrets: SealedSecret, **environment: str
) -> SecretResolver:
    resolver = SecretResolver(held, environment)
    asyncio.run(resolver.reload(holding(*secrets)))
    return resolver


def test_a_secret_is_sealed_under_its_name_with_a_fresh_nonce() -> None:
    one, two = (box(OLD).seal(REF, CANARY, "ann") for _ in range(2))
    assert (one.ref, one.key_id, one.updated_by) == ("providers/openai/api_key", "old", "ann")
    assert one.sealed != two.sealed
    assert CANARY.encode() not in one.sealed
    assert box(OLD).open(one) == CANARY


def test_a_rotated_secret_needs_only_the_new_key() -> None:
    before = box(OLD).seal(REF, CANARY, "ann")
    both = box(NEW, OLD)
    assert both.open(before) == CANARY
    (after,) = both.rotate([before], "bob")
    assert (after.key_id, after.updated_by) == ("new", "bob")
    assert box(NEW).open(after) == CANARY
    assert both.rotate([after], "bob") == ()


def test_a_secret_whose_key_is_missing_or_wrong_cannot_be_read() -> None:
    sealed = box(OLD).seal(REF, CANARY, "ann")
    with pytest.raises(SecretUnresolved, match="does not have its key, 'old'"):
        box(NEW).open(sealed)
    with pytest.raises(SecretUnresolved, match="does not fit its key or its name"):
        box(format_key("old")).open(sealed)


@pytest.mark.parametrize("change", ["moved", "changed", "cut", "empty"])
def test_a_sealed_secret_that_was_moved_or_changed_is_refused(change: str) -> None:
    held, sealed = box(OLD), box(OLD).seal(REF, CANARY, "ann")
    data = {
        "moved": sealed.sealed,
        "changed": bytes([*sealed.sealed[:-1], sealed.sealed[-1] ^ 1]),
        "cut": sealed.sealed[:20],
        "empty": b"",
    }[change]
    ref = "providers/other/api_key" if change == "moved" else sealed.ref
    with pytest.raises(SecretUnresolved, match=f"'store:{ref}' cannot be read") as raised:
        held.open(msgspec.structs.replace(sealed, ref=ref, sealed=data))
    assert CANARY not in repr(raised.value)


@pytest.mark.parametrize(
    "text",
    ["x", "a:xyz", "a:" + "A" * 44, OLD + "," + OLD, ",", f"a b:{OLD.partition(':')[2]}"],
    ids=["no key", "short", "long", "twice", "empty", "blank in an id"],
)
def test_malformed_keys_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SecretsUnavailable, match="SOURCE") as raised:
        parse_keys(text, "SOURCE")
    assert OLD.partition(":")[2] not in str(raised.value)


def test_without_keys_a_text_is_refused_with_the_way_out() -> None:
    held = SecretBox(ConfiguredKeys({}), FakeClock())
    with pytest.raises(SecretsUnavailable, match="use env:NAME or set AWAKEN_SECRET_KEYS"):
        held.seal(REF, CANARY, "ann")


def test_keys_may_be_in_a_file_one_per_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    keys = ConfiguredKeys({"AWAKEN_SECRET_KEYS_FILE": str(file)})
    assert list(keys.load(may_create=False)) == ["new", "old"]
    with pytest.raises(SecretsUnavailable, match="cannot be read"):
        ConfiguredKeys({"AWAKEN_SECRET_KEYS_FILE": str(file) + "x"}).load(may_create=True)


def test_a_key_file_is_made_beside_a_database_when_a_secret_is_first_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / "awaken.db"
    held = SecretBox(ConfiguredKeys({}, database), FakeClock())
    reader = resolver_of(SecretBox(ConfiguredKeys({}, database), FakeClock()))
    with pytest.raises(SecretUnresolved, match="not stored"):
        reader.resolve(REF)
    assert not list(tmp_path.iterdir())
    with caplog.at_level(logging.WARNING):
        sealed = held.seal(REF, CANARY, "ann")
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("awaken.db.keys", 0o600)
    assert str(file) in caplog.text
    assert file.read_text().strip().partition(":")[2] not in caplog.text
    # Another process, which had started before the file was there, can read it.
    asyncio.run(reader.reload(holding(sealed)))
    assert reader.resolve(REF) == CANARY


MAKER = """
import sys
from pathlib import Path
from awaken.managed.secret_keys import ConfiguredKeys
sys.stdin.readline()
(key,) = ConfiguredKeys({}, Path(sys.argv[1])).load(may_create=True).values()
print(key.hex())
"""


def test_processes_that_make_the_key_file_at_once_share_one_key(tmp_path: Path) -> None:
    for attempt in range(3):
        database = tmp_path / f"{attempt}.db"
        made = [
            subprocess.Popen(
                [sys.executable, "-c", MAKER, str(database)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for _ in range(3)
        ]  # fmt: skip
        for process in made:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        keys = {process.communicate(timeout=60)[0] for process in made}
        assert len(keys) == 1
        assert len(keys.pop().strip()) == 64
    assert len(list(tmp_path.iterdir())) == 3, "no draft of a key file is left"


def test_a_reference_is_resolved_anew_at_each_use(tmp_path: Path) -> None:
    environment = {"KEY": "one", "AWAKEN_SECRET_DIRS": str(tmp_path)}
    held, file = box(OLD), tmp_path / "key"
    resolver = SecretResolver(held, environment)
    from_env, from_store = resolver.bind("env:KEY"), resolver.bind(REF)
    from_file = resolver.bind(f"file:{file}")
    for value in ("one", "two"):
        environment["KEY"] = value
        file.write_text(f"{value}\n")
        asyncio.run(resolver.reload(holding(held.seal(REF, value, "ann"))))
        assert {it.reveal() for it in (from_env, from_store, from_file)} == {value}
    environment.clear()
    asyncio.run(resolver.reload(holding()))
    for reference in (from_env, from_store, from_file):
        with pytest.raises(SecretUnresolved, match=reference.ref):
            reference.reveal()
    assert resolver.list_missing(["env:KEY", "env:KEY", REF]) == ("env:KEY", REF)


def test_a_file_outside_of_the_directories_is_not_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.write_text(CANARY)
    (inside / "link").symlink_to(outside)
    (inside / "large").write_text("x" * 100_000)
    resolver = SecretResolver(None, {"AWAKEN_SECRET_DIRS": f"relative{os.pathsep}{inside}"})
    for name, problem in (("in/link", "below"), ("out", "below"), ("in/large", "too large")):
        with pytest.raises(SecretUnresolved, match=problem) as raised:
            resolver.resolve(f"file:{tmp_path / name}")
        assert CANARY not in repr(raised.value)


def test_no_form_of_a_secret_shows_its_value(caplog: pytest.LogCaptureFixture) -> None:
    held = box(OLD)
    sealed = held.seal(REF, CANARY, "ann")
    resolver = resolver_of(held, sealed)
    reference = resolver.bind(REF)
    assert reference.reveal() == CANARY
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("t").warning("%s %r %s", reference, reference, reference.preview())
    shown = [
        caplog.text, repr(reference), str(reference), f"{reference:>9}", reference.preview(),
        msgspec.json.encode(reference, enc_hook=encode_secret).decode(),
        str(msgspec.json.encode([reference, RedactedString(CANARY)], enc_hook=encode_reference)),
        repr(held), repr(resolver), repr(sealed), msgspec.json.encode(sealed).decode(),
        repr(vars(resolver)),
    ]  # fmt: skip
    assert CANARY not in "".join(shown)
    assert msgspec.json.decode(shown[5]) == {"$secret": REF}
    assert bool(reference)
    assert copy.deepcopy(reference) is reference is copy.copy(reference)
    assert reference == SecretReference(REF, str) != RedactedString(CANARY)
    assert RedactedString("") != reference
    assert len({reference, SecretReference(REF, str)}) == 1
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(reference)


def test_a_spec_is_converted_without_touching_its_secrets() -> None:
    reference, text = SecretReference("env:A", lambda _: CANARY), RedactedString(CANARY)
    data = to_builtins_with_secrets({"a": [reference, {"b": text}], "c": 1, "d": "e"})
    assert data["a"][0] is reference
    assert data["a"][1]["b"] is text
    assert (data["c"], data["d"]) == (1, "e")
    with pytest.raises(TypeError, match="object is not a JSON value"):
        to_builtins_with_secrets({"a": object()})
