"""``python -I -S broker.py CHANNEL PARENT``: serve a process that reads what agents write.

CHANNEL is the number of a socket, PARENT that of the process at its other end. As in
``launcher.py``, only this folder is loaded.
"""

import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
__import__("inside.broker_service", fromlist=["main"]).main(int(sys.argv[1]), int(sys.argv[2]))
