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
"""Characters of each part of a line."""


def render_line(result: RunResult, today: str) -> str:
    """A paragraph with day, outcome, category, title or reason, cost, duration and links. All text
    is escaped."""
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
_TIMEOUTS_S = (5.0, 20.0)
"""Timeouts: to connect, and between two parts of an answer."""


class ConfluenceError(Exception):
    """Confluence did not do what was asked; the text holds no secret."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class _PageAccess:
    """A page's address, and how to log in. ``auth`` is None for Data Center's API."""

    url: str
    page_id: str
    headers: dict[str, str]
    auth: tuple[str, str] | None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def append_to_page(*, page: str, url: str, token: str, user: str, line: str) -> str:
    """Add a line at the end of a page: of Cloud for a ``user``, of Data Center without one. Returns
    why that failed, "" if it did not."""
    if not _is_address(url):
        return "CONFLUENCE_URL is not an address such as https://acme.atlassian.net/wiki"
    path = f"api/v2/pages/{page}" if user else f"rest/api/content/{page}"
    headers = {} if user else {"Authorization": f"Bearer {token}"}
    auth = (user, token) if user else None
    access = _PageAccess(f"{url.rstrip('/')}/{path}", page, headers, auth)
    try:
        try:
            _append(access, line)
        except ConfluenceError as error:
            if error.status != CONFLICT:  # someone has edited the page since it was read
                raise
            _append(access, line)
    except ConfluenceError as error:
        return str(error)
    return ""


def _append(access: _PageAccess, line: str) -> None:
    """Read the page, and write it back whole with the line."""
    wanted = {"body-format": "storage"} if access.auth else {"expand": "body.storage,version"}
    page = _request(access, "GET", params=wanted)
    try:
        # An update names the next version; if it is taken, the answer is 409 (CONFLICT).
        number, body = int(page["version"]["number"]) + 1, str(page["body"]["storage"]["value"])
        update: dict[str, Any] = {"id": access.page_id, "title": str(page["title"])}
        kind = {} if access.auth else {"type": str(page["type"])}
    except (KeyError, TypeError, ValueError):
        raise ConfluenceError("its answer is not a page: is CONFLUENCE_URL right?") from None
    storage = {"value": body + line, "representation": "storage"}
    update |= {"status": "current", "version": {"number": number}, **kind}
    _request(
        access, "PUT", json={**update, "body": storage if access.auth else {"storage": storage}}
    )


def _request(access: _PageAccess, method: str, **sent: Any) -> Any:
    import requests

    try:
        with requests.request(
            method,
            access.url,
            headers={"Accept": "application/json", **access.headers},
            auth=access.auth or _keep_headers,
            timeout=_TIMEOUTS_S,
            allow_redirects=False,  # the other server would get the token
            stream=True,  # so that the size of the answer can be bounded
            **sent,
        ) as answer:
            if answer.status_code != 200:
                raise ConfluenceError(_explain_status(answer.status_code), answer.status_code)
            return json.loads(_read_bounded(answer.iter_content(1 << 16)))
    except requests.RequestException as error:
        raise ConfluenceError(f"no answer from Confluence ({type(error).__name__})") from None
    except (ValueError, RecursionError):
        raise ConfluenceError("its answer is not JSON: is CONFLUENCE_URL right?") from None


def _keep_headers(request: Any) -> Any:
    """Keep the token: without ``auth``, requests replaces it by a login from .netrc (its
    documentation, netrc authentication)."""
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
