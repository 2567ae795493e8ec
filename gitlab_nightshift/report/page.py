"""``report.html``: one self-contained page, no script, no address that a browser would fetch.

It is well-formed XML too: a text that escapes its place would break it, which a test can see.
"""

from collections.abc import Iterable
from html import escape
from string import Template

from gitlab_nightshift.events import cost, elapsed
from gitlab_nightshift.records import (
    BeadResult,
    Bundle,
    Check,
    CommandResult,
    Finding,
    Gated,
    Outcome,
    RunResult,
    Seen,
)
from gitlab_nightshift.report.result import bead_said

LONGEST_ERROR = 300
_COLOURS = {
    Outcome.MR_CREATED: "#1a7f37",
    Outcome.MR_READY: "#1a7f37",
    Outcome.FAILED: "#cf222e",
    Outcome.APPROVAL_REQUIRED: "#9a6700",
}
_QUIET = "#6e7781"
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"
/>
<title>nightshift: $outcome</title>
<style>
:root { color-scheme: light dark; --bad: #cf222e; --quiet: #57606a; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff7b72; --quiet: #9198a1; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; border-left: .4rem solid $colour; padding-left: .8rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
ul { margin: .5rem 0; padding-left: 1.3rem; }
p, li, dd { overflow-wrap: anywhere; white-space: pre-line; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: var(--quiet); } dd { margin: 0; }
code { font-size: .9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884; }
td { vertical-align: top; white-space: nowrap; }
.said { white-space: pre-line; min-width: 16rem; overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); }
</style>
</head>
<body>
<h1>$outcome</h1>
<p>$reason</p>
$link
<dl>$facts</dl>
$change
$tried
$beads
</body>
</html>
""")
_BEADS = Template("""<h2>Beads</h2>
<div class="wide"><table>
<tr><th>Bead</th><th>Category</th><th>Attempt</th><th>Model</th><th>Status</th><th>Says</th>
<th class="number">Time</th><th class="number">Cost</th><th>Logs</th></tr>
$rows
</table></div>""")


def page(result: RunResult, bundle: Bundle) -> str:
    """The page of a run."""
    return _PAGE.substitute(
        outcome=_text(result.outcome.value),
        colour=_COLOURS.get(result.outcome, _QUIET),
        reason=_text(": ".join(part for part in (result.error_code, result.reason) if part)),
        link=_link(result.mr_url),
        facts=_facts(result),
        change=_change(bundle),
        tried=_tried(result),
        beads=_beads(result.beads),
    )


def _text(text: str) -> str:
    """A text as it may stand anywhere in the page; control and bidi characters become spaces."""
    return escape("".join(c if c.isprintable() or c == "\n" else " " for c in text))


def _link(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        return ""
    return f'<p><a rel="noreferrer" href="{_text(url)}">{_text(url)}</a></p>'


def _facts(result: RunResult) -> str:
    rows = {
        "Run": result.run_id,
        "Category": result.category_used,
        "Made on": result.base_sha,
        "Branch": result.branch,
        "Commit": result.commit_sha,
        "Files scanned": str(result.files_scanned or ""),
        "Time": elapsed(result.total_duration_s),
        "Cost": cost(result.usage),
        "Isolation": result.isolation,
    }
    return "".join(f"<dt>{k}</dt><dd>{_text(v)}</dd>" for k, v in rows.items() if v)


def _change(bundle: Bundle) -> str:
    proposal = bundle.proposal
    if proposal is None:
        return ""
    draft, change = proposal.draft, proposal.change
    size = f"+{change.added} -{change.deleted}"
    files = _list(f"<code>{_text(name)}</code>" for name in change.files)
    seen = [*map(_command, proposal.commands), *map(_check, proposal.checks)]
    told = (*map(_gate, proposal.gates), *map(_finding, proposal.findings))
    ran = _list([*seen, *told, *map(_text, proposal.notes)])
    return (
        f"<h2>{_text(draft.title)} ({size})</h2><p>{_text(draft.summary)}</p>{files}"
        f"<h2>Verification</h2>{ran or '<p>This program ran no command.</p>'}"
    )


def _command(result: CommandResult) -> str:
    how = result.error or f"exit status {result.exit_status}"
    how += f", {elapsed(result.duration_s)}" + (", at the second try" if result.flaky else "")
    return f"<code>{_text(result.command)}</code>: {_text(how)}"


def _check(check: Check) -> str:
    said = f"{_text(check.title)}: {_text(check.detail)}"
    bad = check.seen in (Seen.FAILED, Seen.NOT_CHECKED)
    what = _text(check.seen.value.replace("_", " "))
    return f'<span class="bad">{what}</span> {said}' if bad else said


def _gate(gated: Gated) -> str:
    what = _text(gated.decision.replace("_", " "))
    return f'<span class="bad">{what}</span> <code>{_text(gated.path)}</code> {_text(gated.why)}'


def _finding(finding: Finding) -> str:
    return f'<span class="bad">{_text(finding.name)}</span> {_text(str(finding))}'


def _tried(result: RunResult) -> str:
    """The line of each category."""
    rows = _list(_text(line) for line in result.summary.splitlines() if line.strip())
    return f"<h2>What was tried</h2>{rows}" if rows else ""


def _list(rows: Iterable[str]) -> str:
    items = "".join(f"<li>{row}</li>" for row in rows)
    return f"<ul>{items}</ul>" if items else ""


def _beads(beads: Iterable[BeadResult]) -> str:
    rows = "\n".join(map(_row, beads))
    return _BEADS.substitute(rows=rows) if rows else "<p>No bead ran.</p>"


def _row(bead: BeadResult) -> str:
    status = _text(bead.status.value)
    if not bead.ok:
        status = f'<span class="bad">{status}</span>'
    said = _text(bead_said(bead)[:LONGEST_ERROR])
    words = (bead.bead, bead.category, str(bead.attempt), bead.model)
    cells = "".join(f"<td>{_text(word)}</td>" for word in words)
    used = cost(bead.usage)
    logs = " ".join(_log(name) for name in bead.logs)
    return (
        f'<tr>{cells}<td>{status}</td><td class="said">{said}</td>'
        f'<td class="number">{elapsed(bead.duration_s)}</td>'
        f'<td class="number">{_text(used)}</td><td>{logs}</td></tr>'
    )


def _log(name: str) -> str:
    """A link within the artifacts, by what kind of log it is."""
    kind = name.removesuffix(".gz").rpartition(".")[2]
    return f'<a href="./{_text(name)}">{_text(kind)}</a>'
