"""Spending: budgets are reserved before a model call and settled after it.

Belongs here: which budgets apply, whether a call may be made, what it is charged to, and what a
person is asked when a soft budget is used up. Stays out: prices (a port) and the calls themselves.
"""
