"""Routing rules: the document that they match, patterns, the rule book, the check of an edit."""
