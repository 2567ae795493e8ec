"""``python -I -S own_proc.py COMMAND…``: mount this PID namespace's ``/proc``, drop the right to
mount and most others, and become the command.

It keeps the capabilities to give files back to other users, and to make a user namespace in which
root stays root (``CAP_SETFCAP``, user_namespaces(7)).
"""

import os
import sys

package = type(sys)("inside")
package.__path__ = [__file__.rpartition("/")[0]]
sys.modules["inside"] = package
mount = __import__("inside.kernel", fromlist=["mount"]).mount
keep_capabilities = __import__("inside.privileges", fromlist=["x"]).keep_capabilities
# linux/capability.h, linux/mount.h
CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP = 0, 1, 3, 4, 31
NOSUID, NODEV, NOEXEC = 2, 4, 8

mount(b"proc", b"/proc", NOSUID | NODEV | NOEXEC)
keep_capabilities(CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP)
os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606
