"""This program's version; the build reads it here."""

VERSION = "0.1.0"
