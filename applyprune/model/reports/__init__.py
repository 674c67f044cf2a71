"""What the verbs report that read neither a set nor a run."""
