"""``python -m evireform``."""

from evireform.cli import main

if __name__ == "__main__":
    main()
