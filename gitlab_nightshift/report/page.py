"""``report.html``: one self-contained page, no script, no address that a browser would fetch."""

from html import escape
from string import Template

from gitlab_nightshift.events import cost, elapsed
from gitlab_nightshift.records import BeadResult, Bundle, Outcome, RunResult

_COLOURS = {
    Outcome.MR_CREATED: "#1a7f37",
    Outcome.MR_READY: "#1a7f37",
    Outcome.FAILED: "#cf222e",
    Outcome.APPROVAL_REQUIRED: "#9a6700",
}
_QUIET = "#57606a"
_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nightshift: $outcome</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; border-left: .4rem solid $colour; padding-left: .8rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { white-space: pre-wrap; background: #8882; padding: .8rem; border-radius: .3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: $quiet; } dd { margin: 0; overflow-wrap: anywhere; }
.bad { color: #cf222e; }
</style>
<h1>$outcome</h1>
<p>$reason</p>
$link
<dl>$facts</dl>
$change
<h2>What was tried</h2>
<pre>$summary</pre>
<h2>Beads</h2>
<table>
<tr><th>Bead<th>Category<th>Attempt<th>Model<th>Status<th>Time<th>Cost</tr>
$beads
</table>
</html>
""")


def page(result: RunResult, bundle: Bundle) -> str:
    """The page of a run."""
    return _PAGE.substitute(
        outcome=escape(result.outcome.value),
        colour=_COLOURS.get(result.outcome, _QUIET),
        quiet=_QUIET,
        reason=escape(f"{result.error_code} {result.reason}".strip()),
        link=_link(result.mr_url),
        facts=_facts(result),
        change=_change(bundle),
        summary=escape(result.summary or "nothing"),
        beads="\n".join(_row(bead) for bead in result.beads),
    )


def _link(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        return ""
    return f'<p><a rel="noreferrer" href="{escape(url)}">{escape(url)}</a></p>'


def _facts(result: RunResult) -> str:
    rows = {
        "Run": result.run_id,
        "Category": result.category_used,
        "Commit": result.base_sha,
        "Branch": result.branch,
        "Files scanned": str(result.files_scanned),
        "Time": elapsed(result.total_duration_s),
        "Cost": cost(result.total_cost_usd, result.total_tokens),
        "Isolation": result.isolation,
    }
    return "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in rows.items() if v)


def _change(bundle: Bundle) -> str:
    proposal = bundle.proposal
    if proposal is None:
        return ""
    files = "".join(f"<li>{escape(name)}</li>" for name in proposal.change.files)
    rows = "".join(
        f"<li>{escape(c.command)}: {escape(c.error or f'exit status {c.exit_status}')}, "
        f"{elapsed(c.duration_s)}</li>"
        for c in proposal.commands
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in proposal.notes)
    ran = f"<ul>{rows}{notes}</ul>" if rows or notes else "<p>This program ran no command.</p>"
    size = f"+{proposal.change.added} -{proposal.change.deleted}"
    title = escape(proposal.draft.title)
    return f"<h2>{title} ({size})</h2><ul>{files}</ul><h2>Verification</h2>{ran}"


def _row(bead: BeadResult) -> str:
    status = escape(bead.status.value)
    if not bead.ok:
        status = f'<span class="bad">{status}</span> {escape(bead.error[:200])}'
    words = (bead.bead, bead.category, str(bead.attempt), bead.model)
    cells = "".join(f"<td>{escape(word)}" for word in words)
    used = cost(bead.usage.cost_usd, bead.usage.tokens)
    return (
        f'<tr>{cells}<td>{status}<td class="number">{elapsed(bead.duration_s)}'
        f'<td class="number">{escape(used)}</tr>'
    )
