"""``nightshift run`` and ``work``: starts each process of a run with only what it may hold.

It holds every secret of the job, so of all that an agent may have written it reads only validated
records, and it loads the standard library alone. Secrets go through pipes, once. Each process, the
secrets that it holds, and what it reads:

    redactor  all values          what the others log and keep
    plan      the token           GitLab, settings, the checkout before any agent
    gateway   the model key       agents' HTTP
    work      nothing             all that agents write
    publish   the token           the bundle
    report    nothing             the bundle
    notify    addresses           the result
"""
