"""Commands for people: ``patch``, ``execute``, ``providers``, ``doctor``."""
