"""``python -I -S bare.py``: run the proof's attacks without any boundary, the task read from stdin.

For ``isolation: none``, and to show that each attack works if nothing stops it.
"""

import json
import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
__import__("inside.attacks", fromlist=["main"]).main(json.load(sys.stdin))
