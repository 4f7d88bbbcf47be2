"""A thin way to AWS for the few calls that every letter needs.

`thin_client` has the methods and answers of a boto3 client. `hot_calls` says how the body of a
call is written and read, `learned` where a call goes and how it is signed, and
`connections` carries it.
"""
