"""Starts each process of a run with only what it may hold: for ``nightshift run``, ``work`` and
``notary`` those of the table below, for ``delegate`` those of ``delegation_run.py``.

The supervisor holds every secret of the job. So it reads nothing that an agent may have written
except validated records, and it imports nothing but the standard library. Secrets go through pipes,
once. Each process, the secrets that it holds, and what it reads:

    redactor  all values          what the others log and store
    plan      the token           GitLab, settings, the checkout before any agent
    gateway   the model key       HTTP from agents
    work      nothing             everything that agents write
    notary    nothing             the change, while commands of the plan run on it
    publish   the token           the bundle
    report    nothing             the bundle
    notify    addresses           the result
"""
