"""When an object is ready, by the rules of kstatus and of the user."""
