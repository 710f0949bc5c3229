"""`python -m apportion` is the command line."""

from apportion.cli import main

main()
