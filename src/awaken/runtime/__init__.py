"""Executes runs: from their admission, through the loop, to the commit that ends them.

Start with `engine.py`, which admits and controls runs; `loop/loop.py` drives one. The rooms, from
top to bottom, are listed in `docs/architecture.md`. No store, provider or protocol is named here:
all of them arrive through the ports in `contracts`.
"""
