"""One file per subcommand: build_parser() and run(args); heavy imports only inside run()."""
