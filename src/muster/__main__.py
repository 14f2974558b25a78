"""`python -m muster`: the same as the `muster` command, error handling and exit codes included."""

from muster.cli.main import main

if __name__ == "__main__":
    main()
