"""The Bundle controller: the engine's run, for ever, in or beside a cluster."""
