"""The security scanners over the synthesized templates: `python -m scan`.

apps          the apps that are looked at, and their synthesis
scanners      cdk-nag, cfn-lint, checkov and parliament, each giving findings
policy        the policies in templates, as IAM would read them
finding       what was found, what is acknowledged, and what that comes to
"""
