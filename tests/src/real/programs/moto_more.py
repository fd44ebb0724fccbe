"""moto's server, whose CloudFormation also makes what it does not know by itself: alarms, secrets, queue policies,
function URLs and the settings of asynchronous invocations. Each is made in moto's own backend of that service, through its own calls."""
import json
import sys

from moto.awslambda.models import lambda_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.common_models import CloudFormationModel
from moto.iam.models import ManagedPolicy, iam_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.server import main
from moto.sqs.models import sqs_backends

# moto files its models by the second part of this.
MODULE = "moto.more"


class More:
    """One resource; subclasses say how it is made and unmade."""

    TYPE = NAME = ""

    def __init__(self, physical_resource_id):
        self.physical_resource_id = physical_resource_id

    @classmethod
    def cloudformation_type(cls):
        return cls.TYPE

    @classmethod
    def cloudformation_name_type(cls):
        return cls.NAME

    @classmethod
    def has_cfn_attr(cls, attr):
        return False

    @classmethod
    def create_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name, **_):
        return cls(cls.make(resource_name, cloudformation_json["Properties"], account_id, region_name))

    @classmethod
    def update_from_cloudformation_json(cls, original_resource, new_resource_name, cloudformation_json, account_id, region_name):
        """Unmade and made again, which is enough for what is asserted of it."""
        cls.delete_from_cloudformation_json(original_resource.physical_resource_id, cloudformation_json, account_id, region_name)
        return cls.create_from_cloudformation_json(new_resource_name, cloudformation_json, account_id, region_name)

    @classmethod
    def delete_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name):
        cls.unmake(resource_name, cloudformation_json.get("Properties", {}), account_id, region_name)


class Alarm(More, CloudFormationModel):
    __module__ = MODULE
    TYPE, NAME = "AWS::CloudWatch::Alarm", "AlarmName"

    @staticmethod
    def make(name, given, account, region):
        cloudwatch_backends[account][region].put_metric_alarm(
            name=name,
            namespace=given["Namespace"],
            metric_name=given["MetricName"],
            comparison_operator=given["ComparisonOperator"],
            evaluation_periods=int(given["EvaluationPeriods"]),
            period=int(given["Period"]),
            threshold=float(given["Threshold"]),
            statistic=given["Statistic"],
            description=given["AlarmDescription"],
            dimensions=given["Dimensions"],
            alarm_actions=given.get("AlarmActions", []),
            ok_actions=given.get("OKActions", []),
            datapoints_to_alarm=int(given["DatapointsToAlarm"]),
            treat_missing_data=given["TreatMissingData"],
        )
        return name

    @staticmethod
    def unmake(name, given, account, region):
        cloudwatch_backends[account][region].delete_alarms([name])


class Secret(More, CloudFormationModel):
    __module__ = MODULE
    TYPE, NAME = "AWS::SecretsManager::Secret", "Name"

    @staticmethod
    def make(name, given, account, region):
        made = secretsmanager_backends[account][region].create_secret(
            name=name,
            secret_string=given["SecretString"],
            secret_binary=None,
            description=given.get("Description"),
            tags=None,
            kms_key_id=given.get("KmsKeyId"),
            client_request_token=None,
            replica_regions=[],
            force_overwrite=False,
        )
        return made["ARN"] if isinstance(made, dict) else json.loads(made)["ARN"]

    @staticmethod
    def unmake(name, given, account, region):
        backend = secretsmanager_backends[account][region]
        backend.delete_secret(name, recovery_window_in_days=None, force_delete_without_recovery=True)


class QueuePolicy(More, CloudFormationModel):
    __module__ = MODULE
    TYPE, NAME = "AWS::SQS::QueuePolicy", ""

    @staticmethod
    def make(name, given, account, region):
        for url in given["Queues"]:
            policy = {"Policy": json.dumps(given["PolicyDocument"])}
            sqs_backends[account][region].set_queue_attributes(url.rsplit("/", 1)[1], policy)
        return name

    @staticmethod
    def unmake(name, given, account, region):
        """It goes with its queues."""


class EventInvokeConfig(More, CloudFormationModel):
    __module__ = MODULE
    TYPE, NAME = "AWS::Lambda::EventInvokeConfig", ""

    @staticmethod
    def make(name, given, account, region):
        function = given["FunctionName"]
        kept = {key: given[key] for key in ("MaximumRetryAttempts", "MaximumEventAgeInSeconds")}
        lambda_backends[account][region].put_function_event_invoke_config(function, kept)
        return name

    @staticmethod
    def unmake(name, given, account, region):
        """It goes with its function."""


class FunctionUrl(More, CloudFormationModel):
    __module__ = MODULE
    TYPE, NAME = "AWS::Lambda::Url", ""
    urls = {}

    @classmethod
    def has_cfn_attr(cls, attr):
        return attr == "FunctionUrl"

    def get_cfn_attribute(self, attribute_name):
        return self.urls[self.physical_resource_id]

    @classmethod
    def make(cls, name, given, account, region):
        function = given["TargetFunctionArn"]
        made = lambda_backends[account][region].create_function_url_config(
            function, {"AuthType": given["AuthType"], "InvokeMode": given["InvokeMode"]}
        )
        cls.urls[name] = made.url
        return name

    @staticmethod
    def unmake(name, given, account, region):
        """It goes with its function."""


# moto makes managed policies of a stack, and forgets to delete them.
ManagedPolicy.delete = lambda self, account, region: iam_backends[account]["aws"].delete_policy(self.arn)

if __name__ == "__main__":
    main(sys.argv[1:])
