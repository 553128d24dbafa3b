"""The protocol: texts in annotations and the values they stand for; pure."""
