"""`python -m repeatguard_sdk` is the command `repeatguard`."""

from repeatguard_sdk.cli import main

if __name__ == "__main__":
    main()
