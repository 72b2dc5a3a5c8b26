"""`python -m tileiras`: the command `tileiras`."""

from tileiras.cli import main

if __name__ == "__main__":
    main()
