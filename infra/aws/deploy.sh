#!/usr/bin/env bash
# Deploys to AWS: builds the archives, creates or verifies the container, deploys the stack.
#
#   export COSMOS_ENDPOINT=https://my-account.documents.azure.com COSMOS_KEY=...
#   infra/aws/deploy.sh STACK [Parameter=Value ...]
#
# STACK is the name of the CloudFormation stack; the parameters are those of infra/aws/template.yaml. The environment sets
# COSMOS_ENDPOINT and COSMOS_KEY (required), COSMOS_DATABASE and COSMOS_CONTAINER (default: duroxide, workflows), COSMOS_THROUGHPUT
# of a container that is created now (serverless, autoscale:4000 or manual:400), and AWS's own variables. CosmosKeySecretArn=arn:...
# uses an existing secret; CosmosKeySecretArn= returns to one that the stack creates. A parameter that is not given keeps its last value.
set -euo pipefail

fail() { echo "error: $*" >&2; exit 1; }

[[ $# -ge 1 && $1 != -* && $1 != *=* ]] || fail "the stack's name is missing: infra/aws/deploy.sh STACK [Parameter=Value ...]"
stack=$1; shift
# Function names start with it, and Lambda allows 64 characters.
[[ ${#stack} -le 50 ]] || fail "the stack's name has more than 50 characters: choose a shorter one"
[[ -n ${COSMOS_ENDPOINT:-} ]] || fail 'COSMOS_ENDPOINT is not set: set it to the URI of the account'
[[ -n ${COSMOS_KEY:-} ]] || fail 'COSMOS_KEY is not set: set it to the key of the account, which creates or verifies the container'
for tool in cargo cargo-lambda sam aws; do
  command -v "$tool" >/dev/null || fail "$tool is not installed: see the prerequisites in docs/deployment.md"
done

given=()
unset architecture secret
for parameter in "$@"; do
  case $parameter in
    CosmosEndpoint=* | CosmosDatabase=* | CosmosContainer=* | CosmosKey=*) fail "${parameter%%=*} is taken from the environment: see the top of this script" ;;
    Architecture=*) architecture=${parameter#*=} ;;
    CosmosKeySecretArn=*) secret=${parameter#*=} ;;
    [A-Z]*=*) given+=("$parameter") ;;
    *) fail "$parameter is not of the form Parameter=Value" ;;
  esac
done

# The AWS CLI and sam must use the same region; sam reads AWS_DEFAULT_REGION only.
if [[ -n ${AWS_REGION:-} ]]; then export AWS_DEFAULT_REGION=$AWS_REGION; fi
# sam repeats the last value of each parameter that is not given. Parameters that must agree with an archive or with each other
# are therefore always given, by default with their last value.
if ! deployed=$(aws cloudformation describe-stacks --stack-name "$stack" --output text \
  --query "Stacks[0].[[['StackStatus', StackStatus]], Parameters[].[ParameterKey, ParameterValue]][]" 2>&1); then
  [[ $deployed == *'does not exist'* ]] || fail "the stack '$stack' cannot be described: $deployed"
  deployed=
fi
last() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' <<< "$deployed"; }
# Neither state is a deployment: the first was never started, the second is what a failed first creation leaves.
status=$(last StackStatus)
if [[ $status == REVIEW_IN_PROGRESS || $status == ROLLBACK_COMPLETE ]]; then deployed=; fi
architecture=${architecture-$(last Architecture)}
architecture=${architecture:-arm64}
[[ $architecture == arm64 || $architecture == x86_64 ]] || fail "Architecture must be arm64 or x86_64"
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
  [[ $parameter != *[\'\"\\]* && $parameter != *$'\n'* ]] || fail "${parameter%%=*} contains a quote, a backslash or a line break"
done

cd "$(dirname "$0")/../.."
# Arguments are visible to every user of the machine, so the key is passed in a file that only its owner can read.
settings=$(mktemp -d)
trap 'rm -rf "$settings"' EXIT
chmod 700 "$settings"

echo '== archives'
# The template expects the archives in target/lambda, whatever CARGO_TARGET_DIR is.
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
# A stack in this state is empty and can only be deleted.
if [[ $status == ROLLBACK_COMPLETE ]]; then
  aws cloudformation delete-stack --stack-name "$stack"
  aws cloudformation wait stack-delete-complete --stack-name "$stack"
fi
sam deploy --template-file "$PWD/infra/aws/template.yaml" --config-file "$settings/samconfig.toml" --stack-name "$stack" \
  --resolve-s3 --capabilities CAPABILITY_IAM --no-confirm-changeset --no-fail-on-empty-changeset
