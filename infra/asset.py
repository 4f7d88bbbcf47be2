"""The Lambda asset: the folder `lambdas` with its dependencies, one zip for all functions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .refusal import Refused

ROOT = Path(__file__).parents[1]
LAMBDAS = ROOT / "lambdas"

# Filled by `make`, so that a synthesis needs no network.
WHEELS = ROOT / "build" / "wheels"

# The packages of the functions; the rest of the folder describes them.
PACKAGES = ("deadletter", "handlers")

# Of the three, `architecture` and `runtime` also choose the wheels.
RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64
PLATFORM = ("--platform", "manylinux2014_aarch64", "--python-version", "3.13")

# Compiled files contain times and paths: the hash would differ for the same source.
COMPILED = ("__pycache__", "*.pyc")

# Fakes and pytest fixtures, for the tests of teams: no function imports them.
TESTING = "deadletter/testing"


@jsii.implements(cdk.ILocalBundling)
class Bundle:
    """Fills the folder of the zip with pip on this machine, without Docker."""

    def try_bundle(self, output_dir: str, *_: object, **__: object) -> bool:
        """Fill `output_dir`. Always True: False would send the CDK to Docker."""
        target = Path(output_dir)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--isolated", "install", "--quiet"),
                *("--disable-pip-version-check", "--no-compile", "--only-binary=:all:"),
                *("--no-index", "--find-links", str(WHEELS), "--require-hashes"),
                *("--requirement", str(LAMBDAS / "requirements.txt")),
                *("--target", str(target), *PLATFORM),
            ],
            check=True,
            # The output of an app is what the CDK CLI reads.
            stdout=sys.stderr,
        )
        # Command line scripts of the dependencies, with this machine's interpreter in them.
        shutil.rmtree(target / "bin", ignore_errors=True)
        for package in PACKAGES:
            ignored = shutil.ignore_patterns(*COMPILED)
            shutil.copytree(LAMBDAS / package, target / package, ignore=ignored)
        shutil.rmtree(target / TESTING)
        return True


def code(scope: Construct) -> lambda_.Code:
    """The asset, for a function in the stack of `scope`; hashed by its source.

    Raises Refused if the wheels have not been fetched.
    """
    if cdk.Stack.of(scope).bundling_required and not WHEELS.is_dir():
        raise Refused(f"{WHEELS} is missing; allowed: the wheels that `make synth` puts there.")
    return lambda_.Code.from_asset(
        str(LAMBDAS),
        exclude=[*COMPILED, TESTING],
        ignore_mode=cdk.IgnoreMode.GIT,
        bundling=cdk.BundlingOptions(image=RUNTIME.bundling_image, local=Bundle()),
    )
