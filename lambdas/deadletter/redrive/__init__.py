"""Moving letters so that a crash loses none: the redriver, its workers, the journal."""
