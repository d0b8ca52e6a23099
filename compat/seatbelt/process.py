"""One process of the load: `process.py MODE DATABASE RECORD WRITER LIFE SECONDS`.

A thread of it opens and closes the files of the database meanwhile. Prints how often which error was
answered, as JSON.
"""

import json
import sys
import time

import belt

mode, file, record = sys.argv[1:4]
number, life = map(int, sys.argv[4:6])
until = time.monotonic() + float(sys.argv[6])
belt.Probe(file)
writer = belt.Writer(mode, file, record, number, life)
while time.monotonic() < until and not writer.sees_damage:
    writer.commit()
writer.close()
print(json.dumps(writer.errors))
