"""Agents whose calls wait for a person: hostile arguments, a plain call, digits, and forms."""

from typing import Any

from awaken import Agent, ToolContext, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls

RTL, ZERO_WIDTH, CYRILLIC_A = "\u202e", "\u200b", "\u0430"
HOSTILE = {
    "to": f"p{CYRILLIC_A}ypal@example.com",
    "path": f"invoice{RTL}fdp.exe{ZERO_WIDTH}",
    "body": "<img src=x onerror=alert(1)><script>alert(2)</script>\u001b[31m",
    "long": "x" * 20_000 + "THE END",
}
HIDDEN = f"a{ZERO_WIDTH}" * 100_000
SPACED = {"path": "/tmp/old" + " " * 5_000 + "/etc", "note": "so" + "\n" * 900 + "and /home"}
LENGTHY = {"paths": [f"/tmp/old/{number}" for number in range(400)] + ["/etc"]}
PAYMENT = {"account": 12345678901234567890, "amount": 1.0, "note": None}
ODD_FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "__proto__": {"type": "string", "title": "Odd"},
        "constructor": {"type": "string"},
    },
}
FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City"},
        "nights": {"type": "integer", "title": "Nights"},
        "is_breakfast": {"type": "boolean", "title": "Breakfast"},
        "room": {"enum": ["single", "double"], "title": "Room"},
    },
    "required": ["city", "nights"],
}


@tool
def send_mail(to: str, path: str, body: str, long: str) -> str:
    """Send a mail."""
    return f"sent {len(long)} characters"


@tool
def wipe(path: str) -> str:
    """Wipe a path."""
    return f"wiped {path}"


@tool
def wipe_all(paths: list[str]) -> str:
    """Wipe paths."""
    return f"wiped {len(paths)} paths"


@tool
def wipe_noted(path: str, note: str) -> str:
    """Wipe a path, and say why."""
    return f"wiped {len(path)} {len(note)}"


@tool
def pay(account: Any, amount: Any, note: Any) -> str:
    """Pay an amount into an account."""
    return f"paid {account!r} {amount!r} {note!r}"


@tool
def choose(ctx: ToolContext) -> Any:
    """Ask with a form that no honest tool has."""
    if ctx.resume is None:
        return ctx.suspend("Which one?", response_schema=ODD_FORM)
    return f"chose {ctx.resume.result}"


@tool
def book(ctx: ToolContext) -> Any:
    """Ask for what a booking needs."""
    if ctx.resume is None:
        return ctx.suspend("Where do you want to stay?", response_schema=FORM)
    return f"booked {ctx.resume.result}"


RULES = [{"tool": 'wipe(path = "/etc")', "behavior": "deny"}]


def asking(name: str, call: tuple[str, dict[str, Any]], it: Any, *, is_gated: bool = True) -> Agent:
    """An agent that makes one call in every run, and then says what came of it."""

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        return f"It says: {last.text}" if last.role == "tool" else ToolCalls([call])

    model = ScriptedModel([answer], cycle=True)
    rules = {"default_behavior": "ask", "rules": RULES}
    gate = {"plugins": [PermissionPlugin()], "config": {"permission": rules}}
    return Agent(name, model=model, tools=[it], **(gate if is_gated else {}))


mailer = asking("mailer", ("send_mail", HOSTILE), send_mail)
cleaner = asking("cleaner", ("wipe", {"path": "/tmp/old"}), wipe)
hider = asking("hider", ("wipe", {"path": HIDDEN}), wipe)
spacer = asking("spacer", ("wipe_noted", SPACED), wipe_noted)
lengthy = asking("lengthy", ("wipe_all", LENGTHY), wipe_all)
payer = asking("payer", ("pay", PAYMENT), pay)
chooser = asking("chooser", ("choose", {}), choose, is_gated=False)
hotel = asking("hotel", ("book", {}), book, is_gated=False)
