"""The security scanners over the synthesized templates: `python -m tools.scan`.

apps          the apps that are scanned, and their synthesis
scanners      cdk-nag, cfn-lint, checkov and parliament, each giving findings
policy        the policies in templates, as IAM would read them
finding       findings, acknowledgements, and the verdict on both
"""
