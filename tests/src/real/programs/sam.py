"""In the place of `sam deploy`, for moto, which does not transform templates: reads settings and template with sam's own code, puts the
archives into a bucket, transforms the template, and creates or updates the stack."""
import ast
import hashlib
import json
import pathlib
import sys

import boto3
from samcli.cli.types import CfnParameterOverridesType
from samcli.commands.deploy.deploy_context import DeployContext
from samcli.lib.config.samconfig import SamConfig
from samcli.yamlhelper import parse_yaml_file
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

BUCKET = "archives"


def after(flag):
    return sys.argv[sys.argv.index(flag) + 1]


def uploaded(path):
    """The address of an archive in S3, by its content."""
    s3 = boto3.client("s3")
    content = path.read_bytes()
    key = hashlib.md5(content).hexdigest()
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    s3.put_object(Bucket=BUCKET, Key=key, Body=content)
    return {"Bucket": BUCKET, "Key": key}


assert sys.argv[1] == "deploy", sys.argv
template_file, settings = pathlib.Path(after("--template-file")), pathlib.Path(after("--config-file"))
stack = after("--stack-name")
template = parse_yaml_file(str(template_file))
read = SamConfig(settings.parent, settings.name).get_all(["deploy"], "parameters", "default")
overrides = CfnParameterOverridesType().convert(read["parameter_overrides"], None, None)
given = DeployContext.merge_parameters(template, overrides)
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = uploaded(template_file.parent / resource["Properties"]["CodeUri"])

cloudformation = boto3.client("cloudformation")
try:
    last = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
except cloudformation.exceptions.ClientError:
    last = None
# moto describes a list as Python would print it, AWS as a text with commas.
text = lambda value: ",".join(ast.literal_eval(value)) if value.startswith("['") else value
before = {one["ParameterKey"]: text(one["ParameterValue"]) for one in (last or {}).get("Parameters", [])}
defaults = {name: str(one["Default"]) for name, one in template["Parameters"].items() if "Default" in one}
values = {one["ParameterKey"]: one.get("ParameterValue") for one in given}
# As CloudFormation: what is not given keeps its last value, and a new parameter has its default. moto does not mask what is NoEcho.
values = {name: before.get(name, defaults.get(name)) if value is None else value for name, value in values.items()}
transformed = Translator({}, Parser()).translate(template, values)
change = cloudformation.update_stack if last else cloudformation.create_stack
change(
    StackName=stack,
    TemplateBody=json.dumps(transformed, default=str),
    Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()],
    Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
)
print(f"Successfully created/updated stack - {stack}")
