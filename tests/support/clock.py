"""A clock that does not wait."""

from dataclasses import dataclass, field

from gitlab_nightshift.system.retry import Clock


@dataclass
class FakeTime:
    """Seconds that pass only by sleeping."""

    at: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at += seconds

    @property
    def clock(self) -> Clock:
        return Clock(self.now, self.sleep)
