"""Creates or deletes the stack `flow` on moto, then prints all that there is in the account, as JSON.

Arguments: `create` or `delete`. Standard input holds {"template": ..., "parameters": {...}}. The address of moto and the
region come from the environment.
"""
import ast
import io
import json
import sys
import zipfile

import boto3

STACK = "flow"


def service(name):
    return boto3.client(name)


def archives(template):
    """moto, like Lambda, wants the archives that the functions name to be there."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("bootstrap", "#!/bin/sh\n")
    s3 = service("s3")
    s3.create_bucket(Bucket="archives", CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Lambda::Function":
            s3.put_object(Bucket="archives", Key=f"{name}.zip", Body=content.getvalue())


def create(asked):
    archives(asked["template"])
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in asked["parameters"].items()]
    service("cloudformation").create_stack(
        StackName=STACK,
        TemplateBody=json.dumps(asked["template"]),
        Parameters=given,
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )


def delete(_asked):
    service("cloudformation").delete_stack(StackName=STACK)


def queues():
    sqs = service("sqs")
    urls = sqs.list_queues().get("QueueUrls", [])
    return {url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"] for url in urls}


def functions():
    awslambda = service("lambda")
    found = {}
    for function in awslambda.list_functions()["Functions"]:
        name = function["FunctionName"]
        try:
            function["EventInvokeConfig"] = awslambda.get_function_event_invoke_config(FunctionName=name)
        except awslambda.exceptions.ResourceNotFoundException:
            function["EventInvokeConfig"] = None
        try:
            function["Policy"] = json.loads(awslambda.get_policy(FunctionName=name)["Policy"])
        except awslambda.exceptions.ResourceNotFoundException:
            function["Policy"] = None
        try:
            function["UrlConfig"] = awslambda.get_function_url_config(FunctionName=name)
        except awslambda.exceptions.ResourceNotFoundException:
            function["UrlConfig"] = None
        found[name] = function
    return found


def parsed(document):
    return ast.literal_eval(document) if isinstance(document, str) else document


def roles():
    iam = service("iam")
    found = {}
    for role in iam.list_roles()["Roles"]:
        name = role["RoleName"]
        inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
        # moto answers the text of a Python object for what came through a stack.
        document = lambda policy: iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        documents = [parsed(document(policy)) for policy in inline]
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        trust = role["AssumeRolePolicyDocument"]
        boundary = iam.get_role(RoleName=name)["Role"].get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        found[name] = {"arn": role["Arn"], "trust": trust, "documents": documents, "attached": attached, "boundary": boundary}
    return found


def policies():
    iam = service("iam")
    found = iam.list_policies(Scope="Local")["Policies"]
    version = lambda policy: iam.get_policy_version(PolicyArn=policy["Arn"], VersionId=policy["DefaultVersionId"])
    return {policy["Arn"]: parsed(version(policy)["PolicyVersion"]["Document"]) for policy in found}


def rules():
    events = service("events")
    found = events.list_rules()["Rules"]
    for rule in found:
        rule["Targets"] = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    return found


def dashboards():
    cloudwatch = service("cloudwatch")
    names = [entry["DashboardName"] for entry in cloudwatch.list_dashboards()["DashboardEntries"]]
    return {name: json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"]) for name in names}


def outputs():
    stacks = service("cloudformation").describe_stacks()["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for stack in stacks for output in stack.get("Outputs", [])}


def everything():
    secrets = service("secretsmanager")
    names = [secret["ARN"] for secret in secrets.list_secrets()["SecretList"]]
    return {
        "queues": queues(),
        "functions": functions(),
        "mappings": service("lambda").list_event_source_mappings()["EventSourceMappings"],
        "roles": roles(),
        "policies": policies(),
        "rules": rules(),
        "alarms": service("cloudwatch").describe_alarms()["MetricAlarms"],
        "dashboards": dashboards(),
        "logGroups": service("logs").describe_log_groups()["logGroups"],
        "secrets": {name: secrets.get_secret_value(SecretId=name)["SecretString"] for name in names},
        "outputs": outputs(),
    }


{"create": create, "delete": delete}[sys.argv[1]](json.load(sys.stdin))
json.dump(everything(), sys.stdout, default=str)
