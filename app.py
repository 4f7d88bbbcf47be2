"""The CDK app: what `cdk synth` and `cdk deploy` run (see cdk.json)."""

import json
import os
import sys
from pathlib import Path

# The set-up puts Node beside Python where the system's is missing or too old. aws_cdk starts the
# first on the PATH when it is imported.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"

# `infra` imports the contract of the library, which lies in the asset's folder.
sys.path.insert(0, str(Path(__file__).parent / "lambdas"))

import aws_cdk as cdk

from infra.context import read
from infra.refusal import Refused
from infra.settings import AppDeployment
from infra.stacks import build
from infra.summary import summary

TEMPLATE = ".template.json"


def main() -> None:
    """Synthesize the app and say what it made, or exit with 1 and a sentence about its settings."""
    # The CDK's own check of templates takes longer than all the rest of a large synth, and says
    # nothing that the settings don't decide: `make scan` has it look at every sort of pipeline.
    app = cdk.App(builtin_cloud_formation_validation=False)
    try:
        settings = read(
            app.node.get_all_context(),
            account=os.environ.get("CDK_DEFAULT_ACCOUNT"),
            region=os.environ.get("CDK_DEFAULT_REGION"),
        )
        build(app, settings)
    except Refused as refused:
        sys.exit(str(refused))
    assembly = app.synth()
    # For `cdk ls` and `cdk destroy` nothing is bundled: these make nothing.
    if app.node.try_get_context("aws:cdk:bundling-stacks") != []:
        # Standard output is the template's, in `cdk synth STACK > template.yaml`.
        print(_summary(settings, Path(assembly.directory)), file=sys.stderr)


def _summary(settings: AppDeployment, assembly: Path) -> str:
    """The summary, or why there is none: a defect in it must not keep anyone from deploying."""
    try:
        return summary(
            settings,
            {
                file.name.removesuffix(TEMPLATE): json.loads(file.read_bytes())
                for file in assembly.glob(f"*{TEMPLATE}")
            },
        )
    except Exception as error:
        return f"The templates are made, but not their summary: {type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
