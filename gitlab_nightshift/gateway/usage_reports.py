"""Reports what is used to whoever started the gateway, whatever becomes of the work."""

import os

from gitlab_nightshift.gateway.cost_account import Account
from gitlab_nightshift.gateway.cost_totals import UsageFigures, to_line


class Reports:
    """Writes a line for each bead whose figures have changed, as far as the pipe takes them now:
    what does not fit is written the next time."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._told: dict[int, UsageFigures] = {}

    def tell(self, accounts: tuple[Account, ...]) -> bool:
        """Write those not written yet, in their order; False where some are left for later."""
        for number, account in enumerate(accounts):
            figures = _read_figures(account)
            if figures == self._told.get(number):
                continue
            try:
                os.write(self._pipe, to_line(number, account.bead, figures))
            except BlockingIOError:
                return False
            except OSError:  # nobody reads
                return True
            self._told[number] = figures
        return True


def _read_figures(account: Account) -> UsageFigures:
    used, pending = account.read_usage(), account.compute_pending()
    return UsageFigures(
        usd=used.cost_usd,
        tokens=used.tokens or 0,
        assumed_usd=max(used.assumed_usd, 0.0),
        assumed_tokens=used.assumed_tokens,
        pending_usd=pending.cost_usd or 0.0,
        pending_tokens=pending.tokens or 0,
    )
