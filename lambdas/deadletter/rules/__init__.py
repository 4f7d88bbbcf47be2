"""Routing rules: the document they match, the patterns, the rule book, the check of an edit."""
