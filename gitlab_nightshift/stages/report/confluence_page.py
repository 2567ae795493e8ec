"""Adds a night's line to a page of Confluence, by its REST API: version 2 on Cloud, version 1 on
Data Center.
"""

import html
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import format_cost
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.stages.report.result_texts import format_duration

LONGEST_TEXT = 300


def render_line(result: RunResult, today: str) -> str:
    """A paragraph: day, outcome, category, title or reason, cost and duration, with links. What an
    agent wrote in it is text."""
    day = _link(result.started_at[:10] or today, result.pipeline_url)
    opened = result.outcome is Outcome.MR_CREATED
    text = _link(result.title if opened else result.reason, result.mr_url)
    category = "" if result.category_used == "none" else _escape(result.category_used)
    spent = f"{format_cost(result.usage)}, {format_duration(result.total_duration_s)}"
    parts = (f"{day} {result.outcome.value}", category, text, _escape(spent))
    return f"<p>{' · '.join(filter(None, parts))}</p>"


def _link(text: str, url: str) -> str:
    safe = url.startswith(("https://", "http://"))
    shown = _escape(text)
    return f'<a href="{_escape(url)}">{shown}</a>' if safe and shown else shown


def _escape(text: str) -> str:
    return html.escape(format_line(text, LONGEST_TEXT))


CONFLICT = 409
LARGEST_PAGE = 16 * 1024 * 1024
"""Bytes of an answer."""
_TIMES_S = (5.0, 20.0)
"""To connect, and between two parts of an answer."""


class ConfluenceError(Exception):
    """What Confluence did not do, in words that hold no secret."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class _PageAccess:
    """A page's address, how to log in, and which of the two APIs it is."""

    url: str
    page: str
    headers: dict[str, str]
    auth: tuple[str, str] | None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def append_to_page(*, page: str, url: str, token: str, user: str, line: str) -> str:
    """Add a line at the end; "", or why that failed. Where somebody else has changed the page since
    it was read, it is done once more."""
    if not _is_address(url):
        return "CONFLUENCE_URL is no address such as https://acme.atlassian.net/wiki"
    path = f"api/v2/pages/{page}" if user else f"rest/api/content/{page}"
    headers = {} if user else {"Authorization": f"Bearer {token}"}
    auth = (user, token) if user else None
    there = _PageAccess(f"{url.rstrip('/')}/{path}", page, headers, auth)
    try:
        try:
            _append(there, line)
        except ConfluenceError as error:
            if error.status != CONFLICT:
                raise
            _append(there, line)
    except ConfluenceError as error:
        return str(error)
    return ""


def _append(there: _PageAccess, line: str) -> None:
    expanded = {"body-format": "storage"} if there.auth else {"expand": "body.storage,version"}
    known = _request(there, "GET", params=expanded)
    try:
        number, body = int(known["version"]["number"]) + 1, str(known["body"]["storage"]["value"])
        made: dict[str, Any] = {"id": there.page, "title": str(known["title"])}
        kind = {} if there.auth else {"type": str(known["type"])}
    except (KeyError, TypeError, ValueError):
        raise ConfluenceError("its answer is no page: is CONFLUENCE_URL right?") from None
    storage = {"value": body + line, "representation": "storage"}
    made |= {"status": "current", "version": {"number": number}, **kind}
    _request(there, "PUT", json={**made, "body": storage if there.auth else {"storage": storage}})


def _request(there: _PageAccess, method: str, **sent: Any) -> Any:
    import requests

    try:
        with requests.request(
            method,
            there.url,
            headers={"Accept": "application/json", **there.headers},
            auth=there.auth or _keep_headers,
            timeout=_TIMES_S,
            allow_redirects=False,
            stream=True,
            **sent,
        ) as answer:
            if answer.status_code != 200:
                raise ConfluenceError(_explain_status(answer.status_code), answer.status_code)
            return json.loads(_read_bounded(answer.iter_content(1 << 16)))
    except requests.RequestException as error:
        raise ConfluenceError(f"no answer from Confluence ({type(error).__name__})") from None
    except (ValueError, RecursionError):
        raise ConfluenceError("its answer is no JSON: is CONFLUENCE_URL right?") from None


def _keep_headers(request: Any) -> Any:
    """No other login, such as one of a .netrc, replaces the token."""
    return request


def _read_bounded(parts: Any) -> bytes:
    data = bytearray()
    for part in parts:
        data += part
        if len(data) > LARGEST_PAGE:
            raise ConfluenceError("the page is too large")
    return bytes(data)


def _explain_status(status: int) -> str:
    hints = {
        401: "CONFLUENCE_TOKEN is refused",
        403: "CONFLUENCE_TOKEN may not edit the page",
        404: "it has no such page, or CONFLUENCE_TOKEN may not see it",
        CONFLICT: "the page is being edited",
    }
    hint = hints.get(status, "is CONFLUENCE_URL right?" if 300 <= status < 400 else "")
    return f"Confluence answered {status}{f': {hint}' if hint else ''}"
