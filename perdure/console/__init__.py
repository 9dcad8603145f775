"""The operator's verbs, over the small port `perdure.console.port.RunsPort`."""
