"""Who may call: tokens, signed tokens, the environment, and where a server may listen."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from awaken import Access, AgentRuntime, InvalidInput, RedactedString
from awaken.errors import UnsafeExposure
from awaken.server import JwtConfig, RateLimit, ServerConfig, ServerLimits, TokenSpec
from awaken.server.addresses import check_exposure
from awaken.server.environment import with_environment
from awaken.testing import FakeClock

from .in_process import EVERYTHING, ask, bearer, config, token

INFO = "/v1/system/info"
SECRET = "a-shared-secret-of-at-least-32-bytes!"
ISSUER, AUDIENCE = "https://issuer.example", "awaken"


def served(
    config: ServerConfig, scenario: Callable[[Any, FakeClock], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        clock = FakeClock()
        await scenario(AgentRuntime(clock=clock).asgi(config), clock)

    asyncio.run(run())


def jwt_config(**changes: Any) -> JwtConfig:
    options: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "algorithms": ("HS256",),
        "key": RedactedString(SECRET),
        **changes,
    }
    return JwtConfig(**options)


def signed(
    clock: FakeClock, key: Any = SECRET, alg: str = "HS256", kid: str | None = None, **changes: Any
) -> dict[str, str]:
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "scope": "read invoke",
        "org": "acme",
        "exp": clock.now_ms() // 1000 + 60,
        **changes,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    headers = None if kid is None else {"kid": kid}
    return {"authorization": f"Bearer {jwt.encode(claims, key, algorithm=alg, headers=headers)}"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "admin authentication required"),
        ({"authorization": "Basic YTpi"}, "Authorization header must use Bearer authentication"),
        ({"authorization": "Bearer"}, "invalid Authorization header"),
        ({"authorization": "Bearer  "}, "invalid Authorization header"),
        ({"authorization": "Bearer two words"}, "invalid Authorization header"),
        ({"authorization": "Bearer t\xf6ken"}, "invalid Authorization header"),
        ({"authorization": "Bearer wrong"}, "invalid admin bearer token"),
        ({"authorization": "Bearer one-toke"}, "invalid admin bearer token"),
        ({"authorization": "Bearer one-tokenn"}, "invalid admin bearer token"),
    ],
)
def test_a_caller_that_cannot_be_known_is_told_why(given: dict[str, str], text: str) -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        answer = await ask(app, "GET", INFO, headers=given)
        assert (answer.status, answer.error) == (401, text)
        assert answer.headers["www-authenticate"].startswith("Bearer")

    served(config(token("one")), scenario)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_word_bearer_may_be_written_in_any_case(scheme: str) -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        headers = {"authorization": f"{scheme} one-token"}
        assert (await ask(app, "GET", INFO, headers=headers)).status == 200

    served(config(token("one")), scenario)


def test_two_credentials_are_refused_even_if_both_are_right() -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        more = [(b"authorization", b"Bearer one-token")]
        answer = await ask(app, "GET", INFO, headers=bearer("one"), more_headers=more)
        assert (answer.status, answer.error) == (401, "invalid Authorization header")

    served(config(token("one")), scenario)


def test_a_token_can_be_configured_by_its_hash() -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        assert (await ask(app, "GET", INFO, headers=bearer("one"))).status == 200
        by_hash = {"authorization": f"Bearer {hashed}"}
        assert (await ask(app, "GET", INFO, headers=by_hash)).status == 401

    hashed = hashlib.sha256(b"one-token").hexdigest()
    spec = TokenSpec(id="one", access=EVERYTHING, sha256=hashed)
    served(config(spec), scenario)


def test_a_scope_that_is_missing_is_named() -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        body = {"agentId": "a", "messages": [{"role": "user", "content": "hi"}]}
        answer = await ask(app, "POST", "/v1/runs", headers=bearer("reader"), body=body)
        assert answer.status == 403
        assert "'invoke'" in answer.error
        assert not answer.has_read_body

    served(config(token("reader", frozenset({Access.READ}))), scenario)


@pytest.mark.parametrize(
    "changes",
    [
        {"token": None},
        {"token": RedactedString("")},
        {"token": RedactedString("two words")},
        {"sha256": "0" * 64},
        {"token": None, "sha256": "xyz"},
        {"id": " "},
        {"tenant_id": ""},
        {"tenant_id": "  "},
        {"tenant_id": " acme"},
        {"tenant_id": "(nobody)"},
        {"access": frozenset(Access)},
    ],
)
def test_a_token_that_would_match_nobody_or_too_many_is_refused(changes: dict[str, Any]) -> None:
    options: dict[str, Any] = {"id": "a", "access": EVERYTHING, "token": RedactedString("x")}
    with pytest.raises(InvalidInput):
        TokenSpec(**{**options, **changes})


def test_a_secret_in_plain_text_is_hidden_like_any_other() -> None:
    spec = TokenSpec(id="one", access=EVERYTHING, token="one-token")  # type: ignore[arg-type]
    assert spec == token("one")
    assert spec.digest == token("one").digest
    assert jwt_config(key=SECRET) == jwt_config()
    assert "one-token" not in repr(spec)
    assert SECRET not in repr(jwt_config(key=SECRET))


def test_two_tokens_of_one_id_are_refused() -> None:
    with pytest.raises(InvalidInput):
        config(token("a"), token("a"))


def test_after_many_failures_wrong_tokens_of_an_address_wait_and_valid_ones_never() -> None:
    async def scenario(app: Any, clock: FakeClock) -> None:
        for _ in range(3):
            assert (await ask(app, "GET", INFO, headers=bearer("bad"))).status == 401
        refused = await ask(app, "GET", INFO, headers=bearer("bad"))
        assert refused.status == 429
        assert refused.headers["retry-after"] == "2"
        # Whoever shares the address, as behind a proxy, is not kept out: not even the first time.
        assert (await ask(app, "GET", INFO, headers=bearer("one"))).status == 200
        elsewhere = await ask(app, "GET", INFO, headers=bearer("bad"), client="10.0.0.9")
        assert elsewhere.status == 401
        clock.advance(2000)
        assert (await ask(app, "GET", INFO, headers=bearer("bad"))).status == 401

    limits = ServerLimits(login_failures=RateLimit(per_s=0.5, burst=3))
    served(config(token("one"), token("two"), limits=limits), scenario)


@pytest.mark.parametrize("failures", [0, 1, 3, 50, 500])
def test_a_valid_token_is_never_refused_because_others_failed(failures: int) -> None:
    async def scenario(app: Any, clock: FakeClock) -> None:
        valid = [bearer("one"), bearer("two"), signed(clock), signed(clock, sub="other")]
        for number in range(failures):
            status = (await ask(app, "GET", INFO, headers=bearer(f"bad-{number}"))).status
            assert status == (401 if number < 3 else 429)
            for headers in valid if number % 50 == 0 else ():
                assert (await ask(app, "GET", INFO, headers=headers)).status == 200
        for headers in valid:
            assert (await ask(app, "GET", INFO, headers=headers)).status == 200

    limits = ServerLimits(login_failures=RateLimit(per_s=0.001, burst=3))
    served(config(token("one"), token("two"), limits=limits, jwt=jwt_config()), scenario)


def test_callers_without_credentials_are_not_counted_as_failures() -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        for _ in range(5):
            assert (await ask(app, "GET", INFO)).status == 401
        assert (await ask(app, "GET", INFO, headers=bearer("one"))).status == 200

    limits = ServerLimits(login_failures=RateLimit(per_s=0.5, burst=1))
    served(config(token("one"), limits=limits), scenario)


def test_a_signed_token_is_believed_until_it_expires() -> None:
    async def scenario(app: Any, clock: FakeClock) -> None:
        headers = signed(clock)
        assert (await ask(app, "GET", INFO, headers=headers)).status == 200
        clock.advance(59_000)
        assert (await ask(app, "GET", INFO, headers=headers)).status == 200
        clock.advance(1_000)
        assert (await ask(app, "GET", INFO, headers=headers)).status == 401

    served(ServerConfig(jwt=jwt_config()), scenario)


def none_signed(clock: FakeClock) -> dict[str, str]:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "org": "acme", "exp": 9_999_999_999}
    return {"authorization": f"Bearer {part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}."}


FORGED: dict[str, Callable[[FakeClock], dict[str, str]]] = {
    "expired": lambda clock: signed(clock, exp=clock.now_ms() // 1000),
    "long expired": lambda clock: signed(clock, exp=1),
    "no expiry": lambda clock: signed(clock, exp=None),
    "not yet": lambda clock: signed(clock, nbf=clock.now_ms() // 1000 + 5),
    "wrong issuer": lambda clock: signed(clock, iss="https://other.example"),
    "no issuer": lambda clock: signed(clock, iss=None),
    "wrong audience": lambda clock: signed(clock, aud="somebody-else"),
    "no audience": lambda clock: signed(clock, aud=None),
    "no subject": lambda clock: signed(clock, sub=None),
    "blank subject": lambda clock: signed(clock, sub=" "),
    "endless subject": lambda clock: signed(clock, sub="a" * 300),
    "wrong key": lambda clock: signed(clock, key="another-secret-of-at-least-32-bytes!!"),
    "wrong algorithm": lambda clock: signed(clock, key=SECRET * 2, alg="HS512"),
    "none": none_signed,
    "no token at all": lambda _: {"authorization": "Bearer a.b.c"},
    "half of one": lambda clock: {"authorization": signed(clock)["authorization"][:-10]},
    "blank tenant": lambda clock: signed(clock, org=" "),
    "no tenant": lambda clock: signed(clock, org=None),
    "nobody's tenant": lambda clock: signed(clock, org="(nobody)"),
    "tenant of a wrong kind": lambda clock: signed(clock, org=["a"]),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_signed_token_is_refused_when_anything_about_it_is_wrong(name: str) -> None:
    async def scenario(app: Any, clock: FakeClock) -> None:
        good = await ask(app, "GET", INFO, headers=signed(clock))
        assert good.status == 200
        answer = await ask(app, "GET", INFO, headers=FORGED[name](clock))
        assert (answer.status, answer.error) == (401, "invalid admin bearer token")

    served(ServerConfig(jwt=jwt_config(tenant_claim="org")), scenario)


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("read", 200),
        (["read", "invoke"], 200),
        (["read", 7], 403),
        ([["read"]], 403),
        ({"read": 1, "admin": 1}, 403),
        (5, 403),
        (True, 403),
        ("admin", 200),
        ("invoke", 403),
        ("open", 403),
        (None, 403),
    ],
)
def test_a_signed_token_allows_what_its_scopes_say(scope: Any, status: int) -> None:
    async def scenario(app: Any, clock: FakeClock) -> None:
        answer = await ask(app, "GET", INFO, headers=signed(clock, scope=scope))
        assert answer.status == status

    served(ServerConfig(jwt=jwt_config()), scenario)


def test_keys_come_from_a_file_by_their_id(tmp_path: Path) -> None:
    keys = {name: rsa.generate_private_key(65537, 2048) for name in ("k1", "k2", "other")}
    listed = [
        {**jwt.algorithms.RSAAlgorithm.to_jwk(keys[name].public_key(), as_dict=True), "kid": name}
        for name in ("k1", "k2")
    ]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": listed}))
    pem = (
        keys["k1"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )

    async def scenario(app: Any, clock: FakeClock) -> None:
        async def status(key: Any, kid: str | None, alg: str = "RS256") -> int:
            headers = signed(clock, key=key, alg=alg, kid=kid)
            return (await ask(app, "GET", INFO, headers=headers)).status

        assert await status(keys["k1"], "k1") == 200
        assert await status(keys["k2"], "k2") == 200
        assert await status(keys["k1"], "k2") == 401
        assert await status(keys["other"], "other") == 401
        assert await status(keys["k1"], None) == 401
        assert await status(keys["k1"], "../../etc/passwd") == 401
        # The public key as the secret of an HMAC.
        assert await status(hashlib.sha256(pem).hexdigest(), "k1", "HS256") == 401

    signed_by = jwt_config(algorithms=("RS256",), key=None, jwks_file=str(file))
    served(ServerConfig(jwt=signed_by), scenario)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": ("none",)},
        {"algorithms": ("RS256", "None")},
        {"algorithms": ("HS256", "RS256")},
        {"algorithms": ()},
        {"issuer": ""},
        {"audience": ""},
        {"key": None},
        {"key": ""},
        {"jwks_file": "keys.json"},
    ],
)
def test_a_config_that_leaves_open_who_signs_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        jwt_config(**changes)


@pytest.mark.parametrize(
    ("host", "is_safe"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        (None, False),
        ("10.0.0.1", False),
        ("192.168.1.5", False),
        ("::ffff:10.0.0.1", False),
        ("127.1", False),
        ("0", False),
        ("2130706433", False),
        ("0x7f000001", False),
        ("example.com", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("my-machine", False),
    ],
)
def test_a_server_without_tokens_only_listens_where_nobody_else_can_call(
    host: str | None, is_safe: bool
) -> None:
    for safe in (
        config(token("a")),
        ServerConfig(jwt=jwt_config()),
        ServerConfig(is_guarded_elsewhere=True),
    ):
        check_exposure(host, safe)
    if is_safe:
        check_exposure(host, ServerConfig())
    else:
        with pytest.raises(UnsafeExposure):
            check_exposure(host, ServerConfig())


def test_an_open_server_knows_nobody_from_another_machine() -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        assert (await ask(app, "GET", INFO, client="10.1.1.1")).status == 401
        assert (await ask(app, "GET", "/health/live", client="10.1.1.1")).status == 200
        for client in ("127.0.0.1", "::1"):
            assert (await ask(app, "GET", INFO, client=client)).status == 200

    served(ServerConfig(), scenario)


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (None, {}),
        ("127.0.0.1", {"X-Forwarded-For": "203.0.113.9"}),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
        ("127.0.0.1", {"Forwarded": "for=203.0.113.9"}),
        ("::1", {"Via": "1.1 proxy"}),
        (None, {"X-Forwarded-For": "203.0.113.9"}),
    ],
)
def test_an_open_server_knows_nobody_that_a_proxy_may_call_for(
    client: str | None, headers: dict[str, str]
) -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        for path, status in ((INFO, 401), ("/v1/threads", 401), ("/health/live", 200)):
            answer = await ask(app, "GET", path, client=client, headers=headers)
            assert answer.status == status, path

    served(ServerConfig(), scenario)


def test_a_server_that_is_guarded_elsewhere_asks_nobody() -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        headers = {"host": "agents.example.com"}
        for client in ("10.1.1.1", None):
            for more in ({}, {"X-Forwarded-For": "203.0.113.9", "Via": "1.1 proxy"}):
                answer = await ask(app, "GET", INFO, client=client, headers={**headers, **more})
                assert answer.status == 200

    served(ServerConfig(is_guarded_elsewhere=True), scenario)


def test_the_environment_wins(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps([{"id": "ops", "token": "ops-token", "access": ["read"]}]))
    signing = tmp_path / "jwt.json"
    signing.write_text(json.dumps({"issuer": ISSUER, "audience": AUDIENCE, "key": SECRET}))
    told = with_environment(
        config(token("code")),
        {
            "AWAKEN_ADMIN_API_BEARER_TOKEN": "  admin-token ",
            "AWAKEN_ADMIN_CORS_ALLOWED_ORIGINS": "https://a.example, https://b.example:8443",
            "AWAKEN_TOKENS_FILE": str(tokens),
            "AWAKEN_JWT_FILE": str(signing),
        },
    )
    assert {spec.id: spec.access for spec in told.tokens} == {
        "code": EVERYTHING,
        "ops": frozenset({Access.READ}),
        "admin": EVERYTHING,
    }
    assert told.tokens[-1].token == RedactedString("admin-token")
    assert told.cors_origins == ("https://a.example", "https://b.example:8443")
    assert told.jwt is not None
    assert told.jwt.issuer == ISSUER


def test_an_empty_environment_changes_nothing() -> None:
    given = config(token("code"))
    blank = {"AWAKEN_ADMIN_API_BEARER_TOKEN": "  ", "AWAKEN_TOKENS_FILE": ""}
    assert with_environment(given, blank) == given


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b'[{"id": "a"}]', b'[{"id": "a", "acess": ["read"]}]', b"\xff"]
)
def test_a_file_of_tokens_that_cannot_be_read_stops_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "tokens.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidInput, match="AWAKEN_TOKENS_FILE"):
        with_environment(ServerConfig(), {"AWAKEN_TOKENS_FILE": str(file)})


@pytest.mark.parametrize(
    "origin",
    ["*", "null", "example.com", "https://example.com/", "https://example.com/x", "ftp://a.b",
     "https://*.example.com", "https://EXAMPLE.com", "https://u@example.com", "https://a:x", ""],
)  # fmt: skip
def test_an_origin_that_is_none_stops_the_start(origin: str) -> None:
    with pytest.raises(InvalidInput):
        ServerConfig(cors_origins=(origin,))
