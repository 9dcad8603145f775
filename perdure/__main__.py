"""python -m perdure ...: the operator's verbs."""

from perdure.console.entry import main

if __name__ == "__main__":
    main()
