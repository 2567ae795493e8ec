"""Appends a night's line to a Confluence page by the REST API: version 2 on Cloud, version 1 on
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
"""Characters of each field of a line."""


def render_line(result: RunResult, today: str) -> str:
    """A paragraph with day (``today`` if the result has none), outcome, category, title or reason,
    cost, duration and links. All text is escaped."""
    day = _link(result.started_at[:10] or today, result.pipeline_url)
    is_opened = result.outcome is Outcome.MR_CREATED
    subject = _link(result.title if is_opened else result.reason, result.mr_url)
    category = "" if result.category_used == "none" else _escape(result.category_used)
    effort = f"{format_cost(result.usage)}, {format_duration(result.total_duration_s)}"
    fields = (f"{day} {result.outcome.value}", category, subject, _escape(effort))
    return f"<p>{' · '.join(filter(None, fields))}</p>"


def _link(text: str, url: str) -> str:
    label = _escape(text)
    is_safe = url.startswith(("https://", "http://"))
    return f'<a href="{_escape(url)}">{label}</a>' if is_safe and label else label


def _escape(text: str) -> str:
    return html.escape(format_line(text, LONGEST_TEXT))


CONFLICT = 409
LARGEST_PAGE = 16 * 1024 * 1024
"""Bytes of an answer."""
_TIMEOUTS_S = (5.0, 20.0)
"""To connect, and between two parts of an answer."""


class ConfluenceError(Exception):
    """A request to Confluence failed; the text contains no secret."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class _PageAccess:
    """A page's URL in the API, and how to log in. ``auth`` is None for Data Center's API."""

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
    """Append a line to a page: with a ``user`` on Cloud, without one on Data Center. Returns why
    that failed, "" on success."""
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
            if error.status != CONFLICT:
                raise
            _append(access, line)  # somebody had edited the page since it was read
    except ConfluenceError as error:
        return str(error)
    return ""


def _append(access: _PageAccess, line: str) -> None:
    """Read the page, and write it back with the line."""
    query = {"body-format": "storage"} if access.auth else {"expand": "body.storage,version"}
    page = _request(access, "GET", params=query)
    try:
        # An update names the next version; if it is taken, the answer is 409 (CONFLICT).
        number, body = int(page["version"]["number"]) + 1, str(page["body"]["storage"]["value"])
        update: dict[str, Any] = {"id": access.page_id, "title": str(page["title"])}
        if not access.auth:
            update["type"] = str(page["type"])
    except (KeyError, TypeError, ValueError):
        raise ConfluenceError("its answer is not a page: is CONFLUENCE_URL right?") from None
    storage = {"value": body + line, "representation": "storage"}
    update |= {"status": "current", "version": {"number": number}}
    update["body"] = storage if access.auth else {"storage": storage}
    _request(access, "PUT", json=update)


def _request(access: _PageAccess, method: str, **options: Any) -> Any:
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
            **options,
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


def _read_bounded(chunks: Any) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
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
    hint = "is CONFLUENCE_URL right?" if 300 <= status < 400 else hints.get(status, "")
    return f"Confluence answered {status}: {hint}" if hint else f"Confluence answered {status}"
