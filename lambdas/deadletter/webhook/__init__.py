"""The webhook dispatcher: which endpoint, which address, how it is signed and posted."""
