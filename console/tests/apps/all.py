"""The apps of these tests in one server: to start one costs as much as a test."""

from context import greeter, open_minded
from durable import many, refund, reporter, steady
from hostile import hostile
from inbox import chooser, cleaner, hider, hotel, mailer, payer

__all__ = [
    "chooser", "cleaner", "greeter", "hider", "hostile", "hotel", "mailer", "many", "open_minded", "payer", "refund", "reporter", "steady",
]  # fmt: skip
