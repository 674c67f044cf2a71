"""What tests share, except fixtures: bodies of objects, stages, oracles, a fault proxy."""
