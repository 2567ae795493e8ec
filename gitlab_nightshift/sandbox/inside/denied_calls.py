"""The system calls that a filter (:mod:`.seccomp`) refuses or checks, by what they do."""

CLOSED = (
    # other processes' memory and descriptors
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    # keyrings: a session's is shared by all its processes (keyrings(7))
    *("add_key", "request_key", "keyctl"),
    # large parts of the kernel that no build needs
    *("bpf", "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "fanotify_init", "fanotify_mark", "lookup_dcookie", "quotactl"),
    *("quotactl_fd", "nfsservctl", "uselib", "_sysctl", "modify_ldt", "iopl", "ioperm", "vhangup"),
    # the machine
    *("open_by_handle_at", "swapon", "swapoff"),
    *("init_module", "finit_module", "delete_module", "create_module", "kexec_load"),
    *("kexec_file_load", "reboot", "acct", "syslog"),
    *("settimeofday", "clock_settime"),
)
MOUNTING = (
    *("sethostname", "setdomainname"),
    *("setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr"),
    *("move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
)
"""Calls that set up a sandbox of namespaces."""
DENIED = (*CLOSED, *MOUNTING)
SYSV = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open"),
)
"""System V IPC: without an IPC namespace every process of the user shares it, and it outlives a
bead."""
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr"),
)
"""What a file's owner may change anywhere: Landlock has no right for it."""
NEWER_ATTRIBUTES = ("setxattrat", "removexattrat", "file_setattr")
"""The same since Linux 6.13 and 6.17; programs fall back to the older calls."""
NEW_PROCESSES = ("fork", "vfork", "execve", "execveat")
OTHERS_SCHEDULING = (
    *("setpriority", "ioprio_set", "sched_setparam", "sched_setscheduler", "sched_setaffinity"),
    *("sched_setattr", "migrate_pages", "move_pages"),
)
"""Calls that can slow down other processes of the same user."""
