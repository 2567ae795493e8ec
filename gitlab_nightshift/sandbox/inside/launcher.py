"""``python -I -S launcher.py SPEC STATUS``: confine this process, then become the program.

SPEC and STATUS are descriptor numbers. Only this folder is loaded, as a package named ``inside``.
Its modules come compiled from the cache; this file, as the main script, is compiled at every start,
so it stays small.
"""

import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
__import__("inside.confine", fromlist=["main"]).main(int(sys.argv[1]), int(sys.argv[2]))
