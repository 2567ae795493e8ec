"""Starts the processes of a run, each with only the secrets that it needs: for ``nightshift run``,
``work`` and ``notary`` those of the table below, for ``delegate`` those of ``delegation_run.py``.

The supervisor has every secret of the job. So it imports only the standard library, and of what
agents may have written it reads only validated records. Secrets are passed once, through pipes.
Each process, its secrets, and what it reads:

    redactor  all values          what the others log and store
    plan      the token           GitLab, settings, the checkout before any agent
    gateway   the model key       HTTP from agents
    work      nothing             everything that agents write
    notary    nothing             the change, while commands of the plan run on it
    publish   the token           the bundle
    report    nothing             the bundle
    notify    addresses           the result
"""
