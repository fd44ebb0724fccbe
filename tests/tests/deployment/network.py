"""Makes a VPC with two subnets, and the stack of infra/aws/network.yaml in it, on moto. Prints the services of the VPC endpoints, the rules
of what may connect to functions and to the endpoints, and the outputs, as JSON. moto makes no egress rules of a stack.

Arguments: the template, and parameters like WithSqs=false.
"""
import json
import pathlib
import sys

import boto3

ec2, cloudformation = boto3.client("ec2"), boto3.client("cloudformation")
zones = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]
vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
subnet = lambda n: ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=zones[n])["Subnet"]["SubnetId"]
subnets = [subnet(n) for n in range(2)]
given = {"VpcId": vpc, "SubnetIds": ",".join(subnets), "ClientCidr": "10.0.0.0/16", "StoreCidr": "10.20.0.0/24"}
given.update(one.split("=", 1) for one in sys.argv[2:])
name = "network-" + vpc
cloudformation.create_stack(
    StackName=name,
    TemplateBody=pathlib.Path(sys.argv[1]).read_text(),
    Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
)
made = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
outputs = {one["OutputKey"]: one["OutputValue"] for one in made["Outputs"]}
endpoints = [one for one in ec2.describe_vpc_endpoints()["VpcEndpoints"] if one["VpcId"] == vpc]
group = lambda name: ec2.describe_security_groups(GroupIds=[name])["SecurityGroups"][0]["IpPermissions"]
of_endpoints = cloudformation.describe_stack_resource(StackName=name, LogicalResourceId="EndpointGroup")["StackResourceDetail"]
json.dump(
    {
        "subnets": subnets,
        "outputs": outputs,
        "services": sorted(one["ServiceName"].rsplit(".", 1)[1] for one in endpoints),
        "private": [one["PrivateDnsEnabled"] for one in endpoints],
        "ingress": group(outputs["SecurityGroupIds"]),
        "ofEndpoints": group(of_endpoints["PhysicalResourceId"]),
    },
    sys.stdout,
)
