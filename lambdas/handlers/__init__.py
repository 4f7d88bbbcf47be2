"""The entry points of the Lambda functions: decorators, one call, return."""
