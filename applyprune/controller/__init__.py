"""The Bundle controller: it repeats the engine's run, inside or outside the cluster."""
