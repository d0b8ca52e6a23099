"""`python -m oneflush`: the program `oneflush`."""

from oneflush._program import main

main()
