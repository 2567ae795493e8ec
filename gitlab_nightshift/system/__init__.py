"""This machine: processes, files, signals, disks."""
