"""``python -I -S launcher.py SPEC STATUS``: confine this process, then become the program.

SPEC and STATUS are numbers of descriptors. Only this folder is loaded, as a package of its own,
and its compiled modules are used: this file stays small because it never is.
"""

import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
__import__("inside.confine", fromlist=["main"]).main(int(sys.argv[1]), int(sys.argv[2]))
