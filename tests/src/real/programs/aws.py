"""In the place of the AWS CLI, for moto: the calls of `duroxide-lambda deploy`."""
import ast
import json
import sys

import boto3
from botocore.exceptions import ClientError


def after(flag):
    return sys.argv[sys.argv.index(flag) + 1]


call = sys.argv[1:3]
try:
    if call == ["cloudformation", "describe-stacks"]:
        asked = {"StackName": after("--stack-name")} if "--stack-name" in sys.argv else {}
        answer = boto3.client("cloudformation").describe_stacks(**asked)
        for one in [one for stack in answer["Stacks"] for one in stack.get("Parameters", [])]:
            # moto describes a list as Python would print it, AWS as a text with commas.
            if one["ParameterValue"].startswith("['"):
                one["ParameterValue"] = ",".join(ast.literal_eval(one["ParameterValue"]))
    elif call == ["cloudformation", "delete-stack"]:
        answer = boto3.client("cloudformation").delete_stack(StackName=after("--stack-name"))
    elif call == ["cloudformation", "wait"]:
        boto3.client("cloudformation").get_waiter("stack_delete_complete").wait(StackName=after("--stack-name"))
        answer = {}
    elif call == ["lambda", "get-function-configuration"]:
        answer = boto3.client("lambda").get_function_configuration(FunctionName=after("--function-name"))
    else:
        sys.exit(f"{call} is not known here")
except ClientError as error:
    sys.exit(f"An error occurred: {error}")
answer.pop("ResponseMetadata", None)
json.dump(answer, sys.stdout, default=str)
