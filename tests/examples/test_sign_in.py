"""The permission sets of examples/sign-in attach the policies that an app makes, all of them."""

from __future__ import annotations

import runpy
from pathlib import Path

from infra.on_call import ATTACH
from tests.infra.conftest import ROOT, Synthesize, synthesize
from tests.infra.templates import Stack, filled, read

__all__ = ["synthesize"]

# Permission sets whose people would act alone on what takes two.
APART = ({"RunOperator", "RunApprover"}, {"RunOperator", "DiscardOperator"})


def attached(stack: Stack) -> dict[str, set[str]]:
    """The names of the policies that each permission set attaches."""
    sets = [each["Properties"] for each in stack.of("AWS::SSO::PermissionSet").values()]
    return {
        each["Name"]: {policy["Name"] for policy in each["CustomerManagedPolicyReferences"]}
        for each in sets
    }


def test_each_policy_of_people_is_in_a_permission_set_by_its_name(synthesize: Synthesize) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "sign-in" / "app.py"))
    sets = attached(read(Path(example["app"].synth().directory))["DeadletterSignIn"])
    shared = synthesize({"pipelines": [{"name": "orders"}]})["Deadletter-Shared"]
    made = {
        filled(policy["Properties"]["ManagedPolicyName"])
        for policy in shared.of("AWS::IAM::ManagedPolicy").values()
    }
    assert set.union(*sets.values()) == made
    reads = {name for name in made if "DlqReader" in name}
    for name, policies in sets.items():
        assert reads <= policies, name
        # Identity Center takes twenty, and a role has ten unless its account asked for more.
        assert len(policies) <= 10, name
        roles = {role for role in ATTACH if f"deadletter-{role}-eu-west-1" in policies}
        assert not any(apart <= roles for apart in APART), name
