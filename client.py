"""python client.py ...: the operator's verbs, as `perdure ...` has them."""

from perdure.console.entry import main

if __name__ == "__main__":
    main()
