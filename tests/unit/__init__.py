"""A module of the package alone: functions, readers and formats, without a control plane."""
