"""``python -I -S launcher.py MODULE ARGUMENT…``: run ``main`` of a module of this folder.

Only this folder is loaded, as a package named ``inside``. Its modules come compiled from the cache;
this file, as the main script, is compiled at every start, so it stays small.
"""

import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
__import__(f"inside.{sys.argv[1]}", fromlist=["main"]).main(*sys.argv[2:])
