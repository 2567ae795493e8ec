"""``python -I -S bare.py``: the proof's attempts without any boundary, the task from stdin.

For ``isolation: none``, and to see that each attempt gets through where nothing stops it.
"""

import json
import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
__import__("inside.attacks", fromlist=["main"]).main(json.load(sys.stdin))
