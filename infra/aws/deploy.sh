#!/usr/bin/env bash
# From a clone to a running deployment on AWS: builds the archives, makes or verifies the container, deploys the stack.
#
#   export COSMOS_ENDPOINT=https://my-account.documents.azure.com COSMOS_KEY=...
#   infra/aws/deploy.sh STACK [Parameter=Value ...]
#
# STACK is the name of the CloudFormation stack; the parameters are those of infra/aws/template.yaml. From the environment:
# COSMOS_ENDPOINT and COSMOS_KEY; COSMOS_DATABASE and COSMOS_CONTAINER (duroxide, workflows); COSMOS_THROUGHPUT for a container
# that is made now (serverless, autoscale:4000); AWS's own variables. Give CosmosKeySecretArn=... to use a secret that exists, and
# CosmosKeySecretArn= to go back to one that the stack makes. What is not given is as in the stack's last deployment.
set -euo pipefail

fail() { echo "error: $*" >&2; exit 1; }

[[ $# -ge 1 && $1 != -* && $1 != *=* ]] || fail "say the stack's name: infra/aws/deploy.sh STACK [Parameter=Value ...]"
stack=$1; shift
# The functions are named after it, and Lambda takes 64 characters.
[[ ${#stack} -le 50 ]] || fail "the stack's name has more than 50 characters"
[[ -n ${COSMOS_ENDPOINT:-} ]] || fail 'COSMOS_ENDPOINT is not set: set it to the URI of the account'
[[ -n ${COSMOS_KEY:-} ]] || fail 'COSMOS_KEY is not set: set it to the key of the account, to make or verify the container'
for tool in cargo cargo-lambda sam aws; do
  command -v "$tool" >/dev/null || fail "$tool is not installed: see the prerequisites in docs/deployment.md"
done

given=()
unset architecture secret
for parameter in "$@"; do
  case $parameter in
    CosmosEndpoint=* | CosmosDatabase=* | CosmosContainer=* | CosmosKey=*) fail "${parameter%%=*} comes from the environment" ;;
    Architecture=*) architecture=${parameter#*=} ;;
    CosmosKeySecretArn=*) secret=${parameter#*=} ;;
    [A-Z]*=*) given+=("$parameter") ;;
    *) fail "$parameter is not of the form Parameter=Value" ;;
  esac
done

# The AWS CLI and sam must mean the same region; sam reads one variable only.
if [[ -n ${AWS_REGION:-} ]]; then export AWS_DEFAULT_REGION=$AWS_REGION; fi
# sam repeats the last value of each parameter that is not given. What must agree with something else, an archive or another
# parameter, is therefore always given, and by default as it was.
if ! deployed=$(aws cloudformation describe-stacks --stack-name "$stack" --output text \
  --query "Stacks[0].[[['StackStatus', StackStatus]], Parameters[].[ParameterKey, ParameterValue]][]" 2>&1); then
  [[ $deployed == *'does not exist'* ]] || fail "the stack cannot be asked for: $deployed"
  deployed=
fi
last() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' <<< "$deployed"; }
# Neither is a deployment: one was never begun, the other is all that is left of a first one that failed.
status=$(last StackStatus)
if [[ $status == REVIEW_IN_PROGRESS || $status == ROLLBACK_COMPLETE ]]; then deployed=; fi
architecture=${architecture-$(last Architecture)}
architecture=${architecture:-arm64}
[[ $architecture == arm64 || $architecture == x86_64 ]] || fail "Architecture is arm64 or x86_64"
secret=${secret-$(last CosmosKeySecretArn)}
key=$COSMOS_KEY
if [[ -n $secret ]]; then key=; fi
COSMOS_DATABASE=${COSMOS_DATABASE:-$(last CosmosDatabase)}
COSMOS_CONTAINER=${COSMOS_CONTAINER:-$(last CosmosContainer)}
export COSMOS_DATABASE=${COSMOS_DATABASE:-duroxide} COSMOS_CONTAINER=${COSMOS_CONTAINER:-workflows}
parameters=(
  "CosmosEndpoint=$COSMOS_ENDPOINT" "CosmosDatabase=$COSMOS_DATABASE" "CosmosContainer=$COSMOS_CONTAINER"
  "CosmosKey=$key" "CosmosKeySecretArn=$secret" "Architecture=$architecture" ${given[@]+"${given[@]}"}
)
for parameter in "${parameters[@]}"; do
  [[ $parameter != *[\'\"\\]* && $parameter != *$'\n'* ]] || fail "${parameter%%=*} has a quote or a backslash"
done

cd "$(dirname "$0")/../.."
# Arguments can be seen by everybody on the machine: the key goes through a file that only its owner reads.
settings=$(mktemp -d)
trap 'rm -rf "$settings"' EXIT
chmod 700 "$settings"

echo '== archives'
# Where the template looks for them, whatever CARGO_TARGET_DIR is.
cargo lambda build --release --locked "--${architecture/x86_64/x86-64}" --output-format zip --lambda-dir target/lambda \
  --package orchestrator --package worker --package maintenance
echo '== container'
cargo run --quiet --locked --package provision -- ensure --throughput "${COSMOS_THROUGHPUT:-serverless}"
echo '== stack'
{
  echo 'version = 0.1'
  echo '[default.deploy.parameters]'
  printf "parameter_overrides = '"
  for parameter in "${parameters[@]}"; do printf '%s="%s" ' "${parameter%%=*}" "${parameter#*=}"; done
  printf "'\n"
} > "$settings/samconfig.toml"
# A stack in this state holds nothing, and can only be deleted.
if [[ $status == ROLLBACK_COMPLETE ]]; then
  aws cloudformation delete-stack --stack-name "$stack"
  aws cloudformation wait stack-delete-complete --stack-name "$stack"
fi
sam deploy --template-file "$PWD/infra/aws/template.yaml" --config-file "$settings/samconfig.toml" --stack-name "$stack" \
  --resolve-s3 --capabilities CAPABILITY_IAM --no-confirm-changeset --no-fail-on-empty-changeset
