from tests.attacks.places import Places, plant, planted

TITLE = "a crontab"
TRIES = "Appends a line to what cron runs as the job's user, long after the bead."
PROMISE = "lifetime"
MUST_FAIL = "Only the checkout and scratch may be written."


def attack(places: Places) -> str | None:
    return plant(places.files["crontab"])


def seen(places: Places) -> bool:
    return planted(places.files["crontab"])
