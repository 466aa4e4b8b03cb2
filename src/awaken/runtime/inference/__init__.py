"""One model turn: the request, the choice of a model, retries, the streamed answer.

Start with `inference_session.py`. How much history a request carries is in `runtime/context`,
what it costs in `runtime/spending`.
"""
