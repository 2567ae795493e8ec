"""A small shop in three languages, with tests that notice each fault in it."""

import sys
from pathlib import Path

from tests.support.scripts import read_files

UNITTEST = f"{sys.executable} -m unittest"
PYTEST = f"{sys.executable} -m pytest -q"
NODE = "node --test"
GO = "go test ./..."
RUNS = {"unittest": UNITTEST, "pytest": PYTEST, "node": NODE, "go": GO}

FOLDER = Path(__file__).parent / "samples"
SHOPS = {path.stem: read_files(path)[1] for path in sorted(FOLDER.glob("*.shop"))}
PYTHON, JAVASCRIPT, GOLANG = (SHOPS[name] for name in ("python", "node", "go"))
SHOP, HELPER = PYTHON["shop.py"], PYTHON["tests/helper.py"]
PRICE_TEST, LABEL_TEST = PYTHON["tests/test_price.py"], PYTHON["tests/test_label.py"]
NODE_SHOP, NODE_TEST = JAVASCRIPT["src/shop.js"], JAVASCRIPT["test/shop.test.js"]
GO_SHOP, GO_TEST = GOLANG["shop.go"], GOLANG["shop_test.go"]
