"""What `sam deploy` makes of a settings file, by its own code, as JSON: each parameter of the template with its new value, or
with null when the last deployment's value stays.

Arguments: the settings file and the template.
"""
import json
import pathlib
import sys

from samcli.cli.types import CfnParameterOverridesType
from samcli.commands.deploy.deploy_context import DeployContext
from samcli.lib.config.samconfig import SamConfig
from samcli.yamlhelper import parse_yaml_file

settings, template = map(pathlib.Path, sys.argv[1:])
read = SamConfig(settings.parent, settings.name).get_all(["deploy"], "parameters", "default")
overrides = CfnParameterOverridesType().convert(read["parameter_overrides"], None, None)
merged = DeployContext.merge_parameters(parse_yaml_file(str(template)), overrides)
json.dump({one["ParameterKey"]: one.get("ParameterValue") for one in merged}, sys.stdout)
