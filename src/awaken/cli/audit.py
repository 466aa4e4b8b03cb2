"""`awaken audit`: the chain of audit events, verified and exported."""

from typing import Annotated

import typer

from .command_line import new_app
from .config_context import ConfigContext, config_command
from .output import as_json, print_stdout
from .reports import REFUSED

app = new_app("Who changed what.")

_PAGE = 500


@app.command("verify")
@config_command
async def verify(context: ConfigContext) -> None:
    """Walk the chain of audit events; exits with 1 if one was changed, added or removed."""
    proof = await context.managed.audit.verify()
    text = f"{proof.checked} events after event {proof.first_no}: the chain is intact."
    if not proof.is_intact:
        text = f"The chain is broken at event {proof.broken_at}; {proof.checked} are intact."
    context.show(proof, text)
    if not proof.is_intact:
        raise typer.Exit(REFUSED)


@app.command("export")
@config_command
async def export(
    context: ConfigContext,
    after: Annotated[
        int, typer.Option("--after", min=0, help="Only events after this number.")
    ] = 0,
) -> None:
    """Print audit events as NDJSON, oldest first; bodies are named by their hashes."""
    store = context.managed.parts.store
    after = max(after, (await store.find_audit_anchor()).no)
    while rows := await store.read_audit_chain(after=after, limit=_PAGE):
        for row in rows:
            document = {"no": row.no, "event": row.event, "chain": row.chain.hex()}
            print_stdout(as_json(document, indent=None))
        after = rows[-1].no
