"""Commands by hand that need more than one hall: ``patch``, ``execute``,
``providers``, ``doctor``."""
