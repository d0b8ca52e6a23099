"""Django on Oneflush: `"ENGINE": "oneflush.django"` in DATABASES.

OPTIONS takes what `oneflush.connect` takes: `strategy`, `journal_mode`, `durability` and so on,
beside all that Django's own engine for SQLite takes. A database in memory, as for tests, stays
SQLite's own.
"""
