"""What tests share: bodies of objects, stages, oracles, a fault proxy; not the fixtures."""
