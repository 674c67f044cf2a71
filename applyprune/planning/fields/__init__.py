"""Fields of objects: paths, FieldsV1 sets, normalized bodies, masked values."""
