"""`python -m cignn` is the command `cignn`."""

from cignn.cli import main

if __name__ == "__main__":
    main()
