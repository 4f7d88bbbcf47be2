"""AWS behind the library's ports: the only package that imports boto3.

Each module is the adapter of one noun in one service. AWS errors become domain errors here,
by the error code (`errors`): no caller sees a ClientError. `wiring` puts the adapters of each
function together.
"""
