"""What all parts of the gateway share: the beads' accounts, and what is known of the endpoint."""

from gitlab_nightshift.gateway.cost_account import Account
from gitlab_nightshift.records.events import Emit, Note


class EndpointState:
    """All beads by their placeholders, and the state of the endpoint.

    ``unusable`` is set once and stays: the endpoint refuses the key, or was overloaded for as long
    as the gateway waits. ``refused_fields`` are pairs of a path and a field of its requests
    that the endpoint refuses there. ``contexts`` are context sizes in tokens by model, None until
    the endpoint was asked.
    """

    def __init__(self, emit: Emit) -> None:
        self.accounts: dict[str, Account] = {}
        self.unusable = ""
        self.refused_fields: set[tuple[str, str]] = set()
        self.contexts: dict[str, int] | None = None
        self._emit, self._reported = emit, set[str]()

    def list_running(self) -> list[Account]:
        """The beads that may still send requests."""
        return [account for account in self.accounts.values() if not account.closed]

    def give_up(self, why: str) -> None:
        """Mark the endpoint as unusable; the first reason is kept."""
        self.unusable = self.unusable or why

    def note_pause(self, account: Account, text: str) -> None:
        """Report that a request waits, every time."""
        self._emit(Note(f"model gateway, {account.bead}: {text}"))

    def note_once(self, account: Account, text: str) -> None:
        """Report an event, once for all beads."""
        if text not in self._reported:
            self._reported.add(text)
            self.tell(account, text)

    def tell(self, account: Account | None, text: str) -> None:
        """Report an event, once per bead and text. Without a bead, the caller is unknown: the event
        is attributed to the first running bead."""
        known = account or next(iter(self.list_running()), None)
        if known and known.remember_refusal(text):
            self._emit(Note(f"model gateway, {known.bead}: {text}", warning=True))
