"""A stage that runs the code that it is given."""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any


def main(data: Mapping[str, Any]) -> int:
    exec(data["code"], {"data": data, "os": os, "sys": sys, "time": time})
    return 0
